//! What a Dockerfile would have the builder fetch.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use parse_dockerfile::{Flag, Instruction, Source};

/// An image that a Dockerfile names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Use {
    /// Where in the text.
    pub span: Range<usize>,
    /// The image, with arguments put in.
    pub name: String,
}

/// The images that a Dockerfile names, in `FROM` and `COPY --from`, without its own stages and `scratch`.
///
/// # Errors
///
/// What is no Dockerfile, what cannot be known before the build, and without `network` what the builder would fetch from one.
pub(super) fn images(
    text: &str,
    arguments: &BTreeMap<String, String>,
    network: bool,
) -> Result<Vec<Use>, String> {
    let file = parse_dockerfile::parse(text).map_err(|error| error.to_string())?;
    let values = values(&file, arguments);
    let mut stages = BTreeSet::new();
    let mut count = 0_usize;
    let mut uses = Vec::new();
    for instruction in &file.instructions {
        match instruction {
            Instruction::From(from) => {
                let name = expand(&from.image.value, &values)?;
                let own = stages.contains(&name.to_lowercase());
                if !own && name != "scratch" {
                    uses.push(Use {
                        span: from.image.span.clone(),
                        name,
                    });
                }
                if let Some((_, stage)) = &from.as_ {
                    stages.insert(stage.value.to_lowercase());
                }
                count += 1;
            }
            Instruction::Copy(copy) => {
                for flag in copy.options.iter().filter(|flag| flag.name.value == "from") {
                    uses.extend(copied(flag, &stages, count)?);
                }
            }
            Instruction::Add(add) if !network => {
                for source in &add.src {
                    check_source(source)?;
                }
            }
            Instruction::Run(run) => {
                for flag in &run.options {
                    check_run(flag, &stages, network)?;
                }
            }
            _ => {}
        }
    }
    Ok(uses)
}

/// The image of a `COPY --from`, unless it is a stage.
fn copied(flag: &Flag<'_>, stages: &BTreeSet<String>, count: usize) -> Result<Option<Use>, String> {
    let Some(value) = &flag.value else {
        return Err("COPY --from needs a value".into());
    };
    let name = value.value.as_ref();
    if name.contains('$') {
        return Err(format!(
            "COPY --from={name}: a variable there is not put in by builders"
        ));
    }
    let is_number = name.parse::<usize>().is_ok_and(|number| number < count);
    if is_number || stages.contains(&name.to_lowercase()) {
        return Ok(None);
    }
    Ok(Some(Use {
        span: value.span.clone(),
        name: name.to_owned(),
    }))
}

/// Whether a source of `ADD` is a file of the context: builders fetch addresses with the host's network.
fn check_source(source: &Source<'_>) -> Result<(), String> {
    let Source::Path(path) = source else {
        return Ok(());
    };
    let path = path.value.as_ref();
    if path.contains("://") || path.starts_with("git@") {
        return Err(format!(
            "ADD {path}: the build has no network (allow it, or copy a file)"
        ));
    }
    if path.contains('$') {
        return Err(format!(
            "ADD {path}: that may be an address, and the build has no network (use COPY, or allow it)"
        ));
    }
    Ok(())
}

/// `RUN` takes options that give it more than the request does.
fn check_run(flag: &Flag<'_>, stages: &BTreeSet<String>, network: bool) -> Result<(), String> {
    let name = flag.name.value.as_ref();
    let value = flag.value.as_ref().map_or("", |value| value.value.as_ref());
    match name {
        "network" if network || matches!(value, "none" | "default") => Ok(()),
        "network" => Err(format!("RUN --network={value}: the build has no network")),
        "mount" => {
            let from = value.split(',').find_map(|part| part.strip_prefix("from="));
            match from {
                Some(image) if !stages.contains(&image.to_lowercase()) => Err(format!(
                    "RUN --mount from {image}: only stages can be mounted; copy from images (COPY --from)"
                )),
                _ => Ok(()),
            }
        }
        _ => Err(format!("RUN --{name} is not supported")),
    }
}

/// What `ARG`s before the first stage say, with the request's own values.
fn values(
    file: &parse_dockerfile::Dockerfile<'_>,
    arguments: &BTreeMap<String, String>,
) -> HashMap<String, String> {
    let mut values = HashMap::new();
    for argument in file.global_args() {
        for part in argument.arguments.value.split_whitespace() {
            let (name, default) = match part.split_once('=') {
                Some((name, default)) => (name, Some(default.trim_matches(['"', '\'']))),
                None => (part, None),
            };
            let given = arguments.get(name).map(String::as_str);
            if let Some(value) = given.or(default) {
                // A default may name arguments before it; what cannot be read so is told where it is used.
                let value = expand(value, &values).unwrap_or_else(|_| value.to_owned());
                values.insert(name.to_owned(), value);
            }
        }
    }
    values
}

/// Puts arguments into a text: `$name`, `${name}`, `${name:-default}`, `${name:+other}`.
fn expand(text: &str, values: &HashMap<String, String>) -> Result<String, String> {
    let unknown = |name: &str| {
        format!("{text}: no value is known for {name:?} (ARG before FROM, or a build argument)")
    };
    let mut out = String::new();
    let mut rest = text.trim_matches(['"', '\'']);
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (name, default) = if let Some(inner) = rest.strip_prefix('{') {
            let (inner, after) = inner.split_once('}').ok_or_else(|| unknown(rest))?;
            rest = after;
            match inner.find(":-").map(|at| (&inner[..at], &inner[at + 2..])) {
                Some((name, default)) => (name, Some(default)),
                None => (inner, None),
            }
        } else {
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            rest = after;
            (name, None)
        };
        let value = values.get(name).map(String::as_str);
        let value = value.filter(|value| !value.is_empty() || default.is_none());
        match value.or(default) {
            Some(value) if !value.contains('$') => out.push_str(value),
            _ => return Err(unknown(name)),
        }
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let given = BTreeMap::from([("GIVEN".to_owned(), "given:1".to_owned())]);
        let uses = images(text, &given, false)?;
        for used in &uses {
            assert!(!text[used.span.clone()].contains(' '), "{used:?}");
        }
        Ok(uses.into_iter().map(|used| used.name).collect())
    }

    #[test]
    fn images_are_found_and_stages_are_not() {
        let text = "# comment\nARG BASE=python:3.11\nARG GIVEN=other\nFROM --platform=linux/amd64 ${BASE} AS Build\n\
                    RUN echo \\\n  FROM nothing\nFROM $GIVEN\nCOPY --from=build /a /a\nCOPY --from=0 /b /b\n\
                    COPY --from=team/tool:1 /c /c\nFROM scratch\nFROM build\nFROM ${NONE:-alpine}\n";
        let found = read(text).expect("images");
        assert_eq!(found, ["python:3.11", "given:1", "team/tool:1", "alpine"]);
        let uses = images(text, &BTreeMap::new(), false).expect("images");
        assert_eq!(&text[uses[0].span.clone()], "${BASE}");
        assert_eq!(uses[1].name, "other");
    }

    #[test]
    fn nothing_is_fetched_behind_the_requests_back() {
        for bad in [
            "FROM x\nADD http://example.org/x /",
            "FROM x\nADD --chown=1 https://example.org/x /",
            "FROM x\nADD git@example.org:x /",
            "FROM x\nARG URL\nADD $URL /",
            "FROM x\nADD [\"http://example.org/x\", \"/\"]",
            "FROM x\nRUN --network=host true",
            "FROM x\nRUN --mount=type=bind,from=other:1,target=/x true",
            "FROM x\nRUN --security=insecure true",
            "FROM $MISSING",
            "FROM x\nCOPY --from=$X /a /a",
            "RUN true",
            "",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        for good in [
            "FROM x\nADD file.tar /",
            "FROM x\nRUN --network=none true",
            "FROM x AS y\nFROM x\nRUN --mount=type=bind,from=y,target=/x true",
            "FROM x\nRUN --mount=type=cache,target=/x true",
        ] {
            assert!(read(good).is_ok(), "{good}: {:?}", read(good));
        }
        assert!(images("FROM x\nADD http://example.org/x /", &BTreeMap::new(), true).is_ok());
    }
}
