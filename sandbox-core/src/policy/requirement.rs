//! Package names with version constraints.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result};

/// The maximum length of a requirement in bytes.
const MAX_LENGTH: usize = 256;

/// The version operators. Longer ones come first, so that no operator hides a longer one.
const OPERATORS: [&str; 8] = ["===", "==", "!=", "<=", ">=", "~=", "<", ">"];

/// A package of a registry: its name, extras and version constraints.
///
/// Examples: `numpy`, `numpy==1.26.4`, `requests[socks] >= 2.28, < 3`. This is the syntax of Python
/// requirements without URLs, files, options and conditions. So a requirement can only name a
/// package of the registry.
///
/// ```
/// # use sandbox_core::policy::Requirement;
/// let requirement: Requirement = "Requests[socks] >= 2.28, < 3".parse()?;
/// assert_eq!(requirement.name(), "requests");
/// assert_eq!(requirement.to_string(), "requests[socks]<3,>=2.28");
/// assert!("--index-url=http://example.org".parse::<Requirement>().is_err());
/// # Ok::<(), sandbox_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Requirement {
    name: String,
    extras: Vec<String>,
    /// Operator and version, sorted.
    versions: Vec<(&'static str, String)>,
}

impl Requirement {
    /// The name as registries compare it: in lower case, with one `-` for each run of `-`, `_` and
    /// `.`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if !self.extras.is_empty() {
            write!(f, "[{}]", self.extras.join(","))?;
        }
        for (number, (operator, version)) in self.versions.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{operator}{version}")?;
        }
        Ok(())
    }
}

impl From<Requirement> for String {
    fn from(requirement: Requirement) -> Self {
        requirement.to_string()
    }
}

impl TryFrom<String> for Requirement {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl FromStr for Requirement {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidPolicy,
                "read package",
                format!(
                    "{text:?} is not the name of a package, with or without versions; write it like numpy or numpy==1.26.4"
                ),
            )
            .with_fix("packages come from the registry by name: no options, files or addresses")
        })
    }
}

fn parse(text: &str) -> Option<Requirement> {
    if text.len() > MAX_LENGTH || text.chars().any(|c| c.is_control() || !c.is_ascii()) {
        return None;
    }
    let text = text.trim();
    let end = text.find(|c: char| !is_name_char(c)).unwrap_or(text.len());
    let name = normalized(&text[..end])?;
    let mut rest = text[end..].trim_start();
    let mut extras = Vec::new();
    if let Some(inner) = rest.strip_prefix('[') {
        let (inside, after) = inner.split_once(']')?;
        for extra in inside.split(',') {
            extras.push(normalized(extra.trim())?);
        }
        rest = after.trim_start();
    }
    extras.sort();
    extras.dedup();
    let mut versions = Vec::new();
    if !rest.is_empty() {
        for version in rest.split(',') {
            versions.push(comparison(version.trim())?);
        }
    }
    versions.sort();
    versions.dedup();
    Some(Requirement {
        name,
        extras,
        versions,
    })
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// The name as registries compare it; `None` unless it begins and ends with a letter or digit.
fn normalized(name: &str) -> Option<String> {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if !is_end(name.chars().next()) || !is_end(name.chars().last()) {
        return None;
    }
    let mut normalized = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            c if c.is_ascii_alphanumeric() => normalized.push(c.to_ascii_lowercase()),
            '-' | '_' | '.' if normalized.ends_with('-') => {}
            '-' | '_' | '.' => normalized.push('-'),
            _ => return None,
        }
    }
    Some(normalized)
}

fn comparison(text: &str) -> Option<(&'static str, String)> {
    let operator = OPERATORS
        .into_iter()
        .find(|operator| text.starts_with(operator))?;
    let version = text[operator.len()..].trim_start();
    let is_version_char = |c: char| is_name_char(c) || matches!(c, '*' | '+' | '!');
    let is_version = version.starts_with(|c: char| c.is_ascii_alphanumeric())
        && version.chars().all(is_version_char);
    is_version.then(|| (operator, version.to_ascii_lowercase()))
}

/// These packages, sorted by name, each once.
pub(crate) fn requirements(
    kind: ErrorKind,
    operation: &'static str,
    packages: &[String],
) -> Result<Vec<Requirement>> {
    const MAX_PACKAGES: usize = 256;
    let bad = |context: String| Error::new(kind, operation, context);
    if packages.len() > MAX_PACKAGES {
        return Err(bad(format!(
            "packages: {} of them, at most {MAX_PACKAGES}",
            packages.len()
        )));
    }
    let mut requirements = Vec::new();
    for package in packages {
        let requirement = package.parse::<Requirement>().map_err(|error| {
            let invalid = bad(format!("packages: {}", error.context()));
            match error.fix() {
                Some(fix) => invalid.with_fix(fix),
                None => invalid,
            }
        })?;
        requirements.push(requirement);
    }
    requirements.sort();
    requirements.dedup();
    match requirements
        .windows(2)
        .find(|pair| pair[0].name() == pair[1].name())
    {
        Some(pair) => Err(bad(format!(
            "packages: {} and {} are the same package",
            pair[0], pair[1]
        ))),
        None => Ok(requirements),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Option<String> {
        text.parse::<Requirement>().ok().map(|r| r.to_string())
    }

    #[test]
    fn requirements_are_parsed_and_normalized() {
        for (text, same) in [
            ("numpy", "numpy"),
            (" NumPy ", "numpy"),
            ("zope.interface", "zope-interface"),
            ("a__b--c..d", "a-b-c-d"),
            ("numpy==1.26.4", "numpy==1.26.4"),
            ("numpy == 1.26.*", "numpy==1.26.*"),
            ("x>=1, <2,!=1.5", "x!=1.5,<2,>=1"),
            ("x~=1.0", "x~=1.0"),
            ("x===1.0+Local", "x===1.0+local"),
            ("requests[Socks, security]>2", "requests[security,socks]>2"),
            ("x==1!2.0", "x==1!2.0"),
            ("7zip", "7zip"),
        ] {
            assert_eq!(read(text).as_deref(), Some(same), "{text:?}");
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "",
            " ",
            "-r requirements.txt",
            "-rfile",
            "--index-url=http://example.org",
            "-e .",
            ".",
            "..",
            "./package",
            "/tmp/package",
            "../package.whl",
            "package.whl/",
            "numpy; rm -rf /",
            "numpy;python_version<'3'",
            "numpy && true",
            "numpy\nscipy",
            "numpy\0",
            "numpy scipy",
            "numpy @ https://example.org/x.whl",
            "git+https://example.org/x",
            "https://example.org/x.whl",
            "file:///tmp/x.whl",
            "numpy==",
            "numpy=1",
            "numpy==1 --hash=x",
            "numpy==1;",
            "numpy==$(id)",
            "numpy[",
            "numpy[]",
            "numpy[a]]",
            "numpy,",
            "numpy==1,",
            "_numpy",
            "numpy-",
            "größe",
            "%s",
            "$HOME",
            "`id`",
            "n'",
            "~user",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
        assert_eq!(read(&"a".repeat(MAX_LENGTH + 1)), None);
    }

    proptest! {
        #[test]
        fn accepted_text_is_one_word_without_options(text in "\\PC{0,40}") {
            if let Some(read) = read(&text) {
                prop_assert!(read.starts_with(|c: char| c.is_ascii_alphanumeric()), "{read:?}");
                prop_assert!(!read.contains(|c: char| c.is_whitespace() || "/:@;'\"$`\\|&(){}".contains(c)), "{read:?}");
            }
        }

        #[test]
        fn displayed_requirement_round_trips(text in "[a-z]{1,9}(\\[[a-z]{1,5}\\])?((==|>=|<)[0-9.]{0,4}[0-9](,!=[0-9])?)?") {
            if let Ok(requirement) = text.parse::<Requirement>() {
                prop_assert_eq!(requirement.to_string().parse::<Requirement>().unwrap(), requirement);
            }
        }
    }
}
