//! Commands of a language, with placeholders.

use std::collections::BTreeMap;

/// A command that compiles or runs code.
///
/// Arguments and values of variables may contain placeholders:
///
/// | placeholder | stands for |
/// |---|---|
/// | `{file}` | the code's file: its name when compiling, its path when running |
/// | `{sources}` | as an argument alone: the code's file and the files beside it with its extension |
/// | `{options}` | as an argument alone: the request's arguments for the compiler |
/// | `{folder}` | the code's folder |
/// | `{program}` | the path of the compiled program |
/// | `{class}` | the main class of Java code |
/// | `{cache}` | a folder that all code of the sandbox shares |
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// Programs, by name or absolute path. The first that the sandbox has is used. `{program}` is
    /// the compiled one.
    pub programs: Vec<String>,
    /// Arguments. When running, the request's own arguments follow.
    pub arguments: Vec<String>,
    /// Environment variables. Those of the request and the specification take precedence.
    pub env: BTreeMap<String, String>,
}

/// What the placeholders stand for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    pub(crate) folder: String,
    pub(crate) file: String,
    pub(crate) sources: Vec<String>,
    pub(crate) options: Vec<String>,
    pub(crate) class: String,
    pub(crate) cache: String,
}

/// A file of the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) content: Vec<u8>,
}

const PLACEHOLDERS: [&str; 7] = [
    "{file}",
    "{sources}",
    "{options}",
    "{folder}",
    "{program}",
    "{class}",
    "{cache}",
];

impl Step {
    /// Runs the first of these programs that the sandbox has.
    pub fn new(programs: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            programs: programs.into_iter().map(Into::into).collect(),
            arguments: Vec::new(),
            env: BTreeMap::new(),
        }
    }

    /// Runs the compiled program.
    #[must_use]
    pub fn compiled() -> Self {
        Self::new(["{program}"])
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// The programs to look for; empty if the step runs the compiled one.
    pub(crate) fn candidates(&self) -> &[String] {
        match self.programs.iter().any(|program| program.contains('{')) {
            true => &[],
            false => &self.programs,
        }
    }

    /// The first unknown placeholder.
    pub(crate) fn unknown_placeholder(&self) -> Option<String> {
        let texts = self.programs.iter().chain(&self.arguments);
        texts.chain(self.env.values()).find_map(|text| {
            let mut rest = text.clone();
            for known in PLACEHOLDERS {
                rest = rest.replace(known, "");
            }
            let start = rest.find('{')?;
            let end = rest[start..].find('}')?;
            Some(rest[start..=start + end].to_owned())
        })
    }

    /// The arguments with their placeholders replaced.
    pub(crate) fn arguments(&self, places: &Places) -> Vec<String> {
        let mut arguments = Vec::new();
        for argument in &self.arguments {
            match argument.as_str() {
                "{sources}" => arguments.extend(places.sources.iter().cloned()),
                "{options}" => arguments.extend(places.options.iter().cloned()),
                argument => arguments.push(places.fill(argument)),
            }
        }
        arguments
    }
}

impl Places {
    /// The path of the compiled program.
    pub(crate) fn program(&self) -> String {
        format!("{}/program", self.folder)
    }

    /// A text with its placeholders replaced. What replaces one is not searched again.
    pub(crate) fn fill(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some(start) = rest.find('{') {
            filled.push_str(&rest[..start]);
            rest = &rest[start..];
            let program = self.program();
            let known = [
                ("{file}", &self.file),
                ("{folder}", &self.folder),
                ("{program}", &program),
                ("{class}", &self.class),
                ("{cache}", &self.cache),
            ];
            match known.iter().find(|(name, _)| rest.starts_with(name)) {
                Some((name, value)) => {
                    filled.push_str(value);
                    rest = &rest[name.len()..];
                }
                None => {
                    filled.push('{');
                    rest = &rest[1..];
                }
            }
        }
        filled + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_once() {
        let places = Places {
            folder: "/tmp/{file}".into(),
            file: "main.c".into(),
            sources: vec!["main.c".into(), "b.c".into()],
            ..Places::default()
        };
        let step = Step::new(["cc"]).args(["-o", "{program}", "{sources}", "{options}", "a{b"]);
        assert_eq!(
            step.arguments(&places),
            ["-o", "/tmp/{file}/program", "main.c", "b.c", "a{b"]
        );
    }

    #[test]
    fn unknown_placeholder_is_found() {
        assert_eq!(Step::new(["{program}"]).unknown_placeholder(), None);
        let wrong = Step::new(["lua"]).args(["{file}", "-{path}"]);
        assert_eq!(wrong.unknown_placeholder().as_deref(), Some("{path}"));
    }
}
