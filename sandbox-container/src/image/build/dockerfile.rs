//! Checks a Dockerfile, and rewrites it as the text that is sent to the builder.

use std::collections::{BTreeMap, HashMap};

use super::arguments::{expand, values};
use super::flags::{Flag, check_run, flags};
use super::lines::{Line, lines};

/// A checked Dockerfile. It states every image and address that the build fetches.
#[derive(Debug)]
pub(super) struct Recipe {
    pub instructions: Vec<Instruction>,
    /// Notes for the caller.
    pub notes: Vec<String>,
}

/// A checked instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instruction {
    pub keyword: &'static str,
    /// The image or stage that it starts from or copies from.
    pub base: Option<Base>,
    /// The name of the stage that it starts.
    pub stage: Option<String>,
    /// The text before the base, including the keyword.
    head: String,
    /// The text after the base.
    tail: String,
}

/// The argument of `FROM` or `COPY --from`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Base {
    Image(String),
    /// An earlier stage, by number, and its name in the sent text.
    Stage(usize, String),
    /// `scratch`.
    Nothing,
}

impl Instruction {
    /// The line to send, with images by id.
    pub(super) fn line(&self, ids: &HashMap<String, String>) -> String {
        let base = match &self.base {
            None => "",
            Some(Base::Nothing) => "scratch",
            Some(Base::Stage(_, name)) => name,
            Some(Base::Image(name)) => ids.get(name).unwrap_or(name),
        };
        format!("{}{base}{}", self.head, self.tail)
    }
}

/// Reads and checks a Dockerfile.
///
/// # Errors
///
/// Invalid syntax, text that builders interpret differently, and values only known during the
/// build. Without `network`, also anything that the builder would fetch.
pub(super) fn read(
    text: &str,
    arguments: &BTreeMap<String, String>,
    network: bool,
) -> Result<Recipe, String> {
    let lines = lines(text)?;
    let values = values(&lines.lines, arguments);
    let mut reader = DockerfileReader {
        values,
        network,
        stages: Vec::new(),
    };
    let mut instructions = Vec::new();
    for line in &lines.lines {
        let read = reader.instruction(line);
        instructions.push(read.map_err(|why| format!("line {}: {why}", line.number))?);
    }
    if reader.stages.is_empty() {
        return Err("there is no FROM".into());
    }
    let recipe = Recipe {
        instructions,
        notes: lines.notes,
    };
    recipe.check()?;
    Ok(recipe)
}

/// Checks an `ONBUILD` trigger of an image; returns its keyword. The builder reads the image's own
/// text of it.
///
/// # Errors
///
/// As [`read`], and a trigger that names an image.
pub(super) fn check_trigger(text: &str, network: bool) -> Result<&'static str, String> {
    let fragment = format!("FROM scratch\n{}\n", text.trim());
    if text.trim().contains('\n') || text.contains(['\r', '\u{feff}']) {
        return Err("it has more than one line".into());
    }
    let recipe = read(&fragment, &BTreeMap::new(), network)?;
    match &recipe.instructions[..] {
        [_, instruction] if instruction.base.is_none() && instruction.keyword != "FROM" => {
            Ok(instruction.keyword)
        }
        [_] => Err("it is no instruction".into()),
        _ => Err("it names another image".into()),
    }
}

impl Recipe {
    /// The images that the Dockerfile names.
    pub(super) fn images(&self) -> impl Iterator<Item = &str> {
        let bases = self
            .instructions
            .iter()
            .filter_map(|instruction| instruction.base.as_ref());
        bases.filter_map(|base| match base {
            Base::Image(name) => Some(name.as_str()),
            Base::Stage(..) | Base::Nothing => None,
        })
    }

    /// The text to send, with images by id.
    pub(super) fn text(&self, ids: &HashMap<String, String>) -> String {
        let lines = self
            .instructions
            .iter()
            .map(|instruction| instruction.line(ids) + "\n");
        lines.collect()
    }

    /// The number of the stage with this name or number.
    pub(super) fn stage(&self, target: &str) -> Option<usize> {
        let froms = self
            .instructions
            .iter()
            .filter(|instruction| instruction.keyword == "FROM");
        let names = froms
            .map(|instruction| instruction.stage.as_deref())
            .collect::<Vec<_>>();
        let target = target.to_ascii_lowercase();
        let named = names.iter().position(|name| *name == Some(&*target));
        named.or_else(|| {
            let number = target.parse::<usize>().ok()?;
            (number < names.len() && number.to_string() == target).then_some(number)
        })
    }

    /// Parses the text to send with a second parser, which must find the same instructions, bases
    /// and stages on the same lines.
    fn check(&self) -> Result<(), String> {
        use parse_dockerfile::Instruction as Parsed;
        let text = self.text(&HashMap::new());
        let file = parse_dockerfile::parse(&text).map_err(|error| error.to_string())?;
        let pairs = self.instructions.iter().zip(&file.instructions);
        let same = pairs.clone().all(|(checked, parsed)| {
            let text = checked.line(&HashMap::new());
            match parsed {
                Parsed::From(from) => {
                    let stage = from.as_.as_ref().map(|(_, name)| name.value.as_ref());
                    let tail = stage.map_or_else(String::new, |name| format!(" AS {name}"));
                    checked.keyword == "FROM"
                        && text.ends_with(&format!(" {}{tail}", from.image.value))
                }
                Parsed::Copy(copy) => {
                    let mut from = copy.options.iter().filter(|flag| flag.name.value == "from");
                    checked.keyword == "COPY" && checked.base.is_some() == from.next().is_some()
                }
                Parsed::Run(run) => checked.keyword == "RUN" && run.here_docs.is_empty(),
                Parsed::Add(_) => checked.keyword == "ADD",
                _ => !matches!(checked.keyword, "FROM" | "COPY" | "RUN" | "ADD"),
            }
        });
        match same
            && pairs.len() == file.instructions.len()
            && pairs.len() == self.instructions.len()
        {
            true => Ok(()),
            false => Err("two readers find different instructions; write one on each line".into()),
        }
    }
}

/// The state while reading a Dockerfile.
struct DockerfileReader {
    values: HashMap<String, String>,
    network: bool,
    /// The names of the stages so far.
    stages: Vec<Option<String>>,
}

impl DockerfileReader {
    fn instruction(&mut self, line: &Line) -> Result<Instruction, String> {
        let (options, rest) = flags(line)?;
        let keyword = line.keyword;
        if self.stages.is_empty() && !matches!(keyword, "FROM" | "ARG") {
            return Err(format!("{keyword} before the first FROM"));
        }
        match keyword {
            "FROM" => return self.from(&options, rest),
            "COPY" | "ADD" => return self.copy(keyword, &options, rest),
            "RUN" => options
                .iter()
                .try_for_each(|flag| check_run(flag, self.network))?,
            _ => {}
        }
        let rest = match keyword {
            "RUN" | "CMD" | "ENTRYPOINT" | "SHELL" | "VOLUME" => command(keyword, rest)?,
            _ => rest.to_owned(),
        };
        Ok(Instruction {
            keyword,
            base: None,
            stage: None,
            head: joined(keyword, &options, &rest),
            tail: String::new(),
        })
    }

    fn from(&mut self, options: &[Flag<'_>], rest: &str) -> Result<Instruction, String> {
        let words = rest.split([' ', '\t']).filter(|word| !word.is_empty());
        let words = words.collect::<Vec<_>>();
        let (image, stage) = match words[..] {
            [image] => (image, None),
            [image, word, name] if word.eq_ignore_ascii_case("as") => (image, Some(name)),
            _ => return Err("write FROM image, or FROM image AS name".into()),
        };
        let stage = stage.map(|name| self.name(name)).transpose()?;
        let name = expand(image, &self.values)?;
        let lowercase = name.to_ascii_lowercase();
        let earlier_stage = self
            .stages
            .iter()
            .position(|stage| stage.as_ref() == Some(&lowercase));
        let base = match earlier_stage {
            Some(number) => Base::Stage(number, name.to_ascii_lowercase()),
            None if name == "scratch" => Base::Nothing,
            None => Base::Image(name),
        };
        self.stages.push(stage.clone());
        let tail = stage.as_ref().map(|name| format!(" AS {name}"));
        Ok(Instruction {
            keyword: "FROM",
            base: Some(base),
            stage,
            head: joined("FROM", options, "") + " ",
            tail: tail.unwrap_or_default(),
        })
    }

    /// Checks the name of a new stage, and converts it to lowercase: builders differ in case
    /// sensitivity.
    fn name(&self, name: &str) -> Result<String, String> {
        let name = name.to_ascii_lowercase();
        let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c));
        if !is_plain || name == "scratch" {
            return Err(format!(
                "{name:?} is no name for a stage: write a letter, then letters, digits, '-', '_' and '.'"
            ));
        }
        match self.stages.contains(&Some(name.clone())) {
            true => Err(format!(
                "{name}: an earlier stage has this name, capital letters or not"
            )),
            false => Ok(name),
        }
    }

    fn copy(
        &self,
        keyword: &'static str,
        options: &[Flag<'_>],
        rest: &str,
    ) -> Result<Instruction, String> {
        let (paths, rest) = paths(keyword, rest)?;
        let Some((_, sources)) = paths
            .split_last()
            .filter(|(_, sources)| !sources.is_empty())
        else {
            return Err(format!("{keyword} needs a source and a destination"));
        };
        if !self.network {
            sources
                .iter()
                .try_for_each(|source| check_source(keyword, source))?;
        }
        let (from, options) = options
            .iter()
            .partition::<Vec<Flag<'_>>, _>(|flag| flag.name == "from");
        let base = from.first().map(|flag| self.copy_base(flag)).transpose()?;
        let head = joined(keyword, &options, "");
        let (head, tail) = match &base {
            Some(_) => (head + " --from=", format!(" {rest}")),
            None => (format!("{head} {rest}"), String::new()),
        };
        Ok(Instruction {
            keyword,
            base,
            stage: None,
            head,
            tail,
        })
    }

    /// The base of a `COPY --from`. A stage that is not complete yet counts as an image name for
    /// builders.
    fn copy_base(&self, flag: &Flag<'_>) -> Result<Base, String> {
        let name = flag.value.unwrap_or_default();
        let lower = name.to_ascii_lowercase();
        let number = match lower.parse::<usize>() {
            Ok(number) => Some(number),
            Err(_) => self
                .stages
                .iter()
                .position(|stage| stage.as_ref() == Some(&lower)),
        };
        match number {
            Some(number) if number + 1 < self.stages.len() => {
                let name = self.stages[number].clone();
                Ok(Base::Stage(
                    number,
                    name.unwrap_or_else(|| number.to_string()),
                ))
            }
            Some(_) => Err(format!("COPY --from={name} names no earlier stage")),
            None if name.is_empty() => Err("COPY --from needs a value".into()),
            None => Ok(Base::Image(name.to_owned())),
        }
    }
}

/// Joins an instruction to one line.
fn joined(keyword: &str, options: &[Flag<'_>], rest: &str) -> String {
    let options = options.iter().map(|flag| flag.text);
    let parts = [keyword].into_iter().chain(options).chain([rest]);
    let parts = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>();
    parts.join(" ")
}

/// The paths of `COPY` and `ADD`, and their text to send.
fn paths(keyword: &str, rest: &str) -> Result<(Vec<String>, String), String> {
    if !rest.starts_with('[') {
        let words = rest.split([' ', '\t']).filter(|word| !word.is_empty());
        return Ok((words.map(str::to_owned).collect(), rest.to_owned()));
    }
    let list = serde_json::from_str::<Vec<String>>(rest);
    let list = list.map_err(|error| format!("{keyword} {rest}: no list of strings: {error}"))?;
    let sent = serde_json::to_string(&list).map_err(|error| error.to_string())?;
    Ok((list, sent))
}

/// The text of a command to send: a JSON list, or a shell command. Builders ignore text after a
/// list.
fn command(keyword: &str, rest: &str) -> Result<String, String> {
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Vec<String>>();
    let Some(Ok(list)) = values.next() else {
        return Ok(rest.to_owned());
    };
    if !rest[values.byte_offset()..].trim().is_empty() {
        return Err(format!(
            "{keyword} {rest}: builders forget what follows the list; write a list alone, or quote the first word"
        ));
    }
    serde_json::to_string(&list).map_err(|error| error.to_string())
}

/// Checks that a source is a file of the context: builders fetch addresses over the host's network.
fn check_source(keyword: &str, path: &str) -> Result<(), String> {
    let is_login = path
        .split_once('@')
        .is_some_and(|(_, host)| host.contains(':'));
    let is_add = keyword == "ADD";
    let is_short = path
        .get(..11)
        .is_some_and(|start| start.eq_ignore_ascii_case("github.com/"));
    if path.contains("://") || is_add && (is_login || is_short) {
        return Err(format!(
            "{keyword} {path}: the build has no network (allow it, or copy a file)"
        ));
    }
    if is_add && path.contains(['$', '"', '\'', '\\']) {
        return Err(format!(
            "ADD {path}: that may be an address, and the build has no network (use COPY, or allow it)"
        ));
    }
    Ok(())
}

#[cfg(test)]
#[path = "dockerfile_tests.rs"]
mod tests;
