//! Package names with version constraints.

mod gem;
mod installer;
mod npm;
mod python;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result};

pub use installer::Installer;

/// The maximum length of a requirement in bytes.
const MAX_LENGTH: usize = 256;

/// A package of a registry: what installs it, its name, extras and version constraints.
///
/// | installer | examples |
/// |---|---|
/// | pip | `numpy`, `numpy==1.26.4`, `requests[socks] >= 2.28, < 3` |
/// | npm | `npm:lodash`, `npm:lodash@4.17.21`, `npm:@types/node@^20`, `npm:semver>=7,<8` |
/// | gem | `gem:rack`, `gem:rack==3.0.8`, `gem:rack~>3.0` |
///
/// There is no syntax for URLs, files, tags, options and conditions. So a requirement can only name
/// a package of the registry.
///
/// ```
/// # use sandbox_core::policy::Requirement;
/// let requirement: Requirement = "Requests[socks] >= 2.28, < 3".parse()?;
/// assert_eq!(requirement.name(), "requests");
/// assert_eq!(requirement.to_string(), "requests[socks]<3,>=2.28");
/// assert!("--index-url=http://example.org".parse::<Requirement>().is_err());
/// assert!("npm:demo@https://example.org/x.tgz".parse::<Requirement>().is_err());
/// # Ok::<(), sandbox_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Requirement {
    installer: Installer,
    name: String,
    extras: Vec<String>,
    /// Operator and version, sorted.
    versions: Vec<(&'static str, String)>,
}

impl Requirement {
    /// Parses a requirement in code of a language whose libraries this installer installs. The
    /// prefix of the installer may be left out.
    ///
    /// ```
    /// # use sandbox_core::policy::{Installer, Requirement};
    /// let library = Requirement::of_installer(Installer::Npm, "lodash@^4")?;
    /// assert_eq!(library.to_string(), "npm:lodash@^4");
    /// assert!(Requirement::of_installer(Installer::Npm, "gem:rack").is_err());
    /// # Ok::<(), sandbox_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As those of parsing, and [`ErrorKind::InvalidPolicy`] for a package of another installer.
    pub fn of_installer(installer: Installer, text: &str) -> Result<Self> {
        let (named, rest) = installer::prefix(text)?;
        if named.is_some_and(|named| named != installer) {
            let context = format!("{text:?} is not a package of {}", installer.as_str());
            return Err(Error::new(
                ErrorKind::InvalidPolicy,
                "read package",
                context,
            ));
        }
        parse(installer, rest).ok_or_else(|| invalid(text, installer))
    }

    /// What installs it.
    #[must_use]
    pub fn installer(&self) -> Installer {
        self.installer
    }

    /// The name as the registry compares it. For pip: in lower case, with one `-` for each run of
    /// `-`, `_` and `.`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The operators and versions, sorted. For npm and gem, `==` is an exact version.
    pub fn versions(&self) -> impl Iterator<Item = (&str, &str)> {
        let versions = self.versions.iter();
        versions.map(|(operator, version)| (*operator, version.as_str()))
    }

    /// Whether both are requirements of one package.
    #[must_use]
    pub fn is_same_package(&self, other: &Self) -> bool {
        self.installer == other.installer && self.name == other.name
    }

    /// Whether this package is what `asked` asks for: the same requirement, or any version.
    #[must_use]
    pub fn provides(&self, asked: &Self) -> bool {
        let is_any = asked.extras.is_empty() && asked.versions.is_empty();
        self == asked || (is_any && self.is_same_package(asked))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.installer != Installer::Pip {
            write!(f, "{}:", self.installer.as_str())?;
        }
        f.write_str(&self.name)?;
        if !self.extras.is_empty() {
            write!(f, "[{}]", self.extras.join(","))?;
        }
        if self.installer == Installer::Npm && !self.versions.is_empty() {
            f.write_str("@")?;
        }
        for (number, (operator, version)) in self.versions.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            let operator = match (self.installer, *operator) {
                (Installer::Npm, "==") => "",
                (_, operator) => operator,
            };
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
        let (installer, rest) = installer::prefix(text)?;
        let installer = installer.unwrap_or(Installer::Pip);
        parse(installer, rest).ok_or_else(|| invalid(text, installer))
    }
}

fn invalid(text: &str, installer: Installer) -> Error {
    let examples = match installer {
        Installer::Pip => "numpy or numpy==1.26.4",
        Installer::Npm => "npm:lodash or npm:lodash@^4.17",
        Installer::Gem => "gem:rack or gem:rack~>3.0",
    };
    Error::new(
        ErrorKind::InvalidPolicy,
        "read package",
        format!(
            "{text:?} is not the name of a package, with or without versions; write it like {examples}"
        ),
    )
    .with_fix("packages come from the registry by name: no options, files or addresses")
}

fn parse(installer: Installer, text: &str) -> Option<Requirement> {
    if text.len() > MAX_LENGTH || text.chars().any(|c| c.is_control() || !c.is_ascii()) {
        return None;
    }
    let text = text.trim();
    let mut requirement = match installer {
        Installer::Pip => python::parse(text),
        Installer::Npm => npm::parse(text),
        Installer::Gem => gem::parse(text),
    }?;
    requirement.versions.sort();
    requirement.versions.dedup();
    Some(requirement)
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Comparisons separated by commas: an operator and a version each. Longer operators must come
/// first, so that no operator hides a longer one.
fn comparisons(
    text: &str,
    operators: &[&'static str],
    is_version: impl Fn(&str) -> bool,
) -> Option<Vec<(&'static str, String)>> {
    let comparison = |text: &str| {
        let text = text.trim();
        let operator = operators
            .iter()
            .find(|operator| text.starts_with(**operator))?;
        let version = text[operator.len()..].trim_start();
        is_version(version).then(|| (*operator, version.to_owned()))
    };
    match text.is_empty() {
        true => Some(Vec::new()),
        false => text.split(',').map(comparison).collect(),
    }
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
            let context = format!("packages: {}", error.context());
            let invalid = match error.kind() {
                ErrorKind::LibrariesNotSupported => Error::new(error.kind(), operation, context),
                _ => bad(context),
            };
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
        .find(|pair| pair[0].is_same_package(&pair[1]))
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

    #[test]
    fn installers_have_prefixes() {
        assert_eq!(read("pip:NumPy==1").as_deref(), Some("numpy==1"));
        assert_eq!(read("npm:a").as_deref(), Some("npm:a"));
        assert_eq!(read("gem:a").as_deref(), Some("gem:a"));
        for text in ["npm", "npm-x", "gem"] {
            assert_eq!(read(text).as_deref(), Some(text), "a package of pip");
        }
        for text in ["npm:npm:a", "gem: -v", "NPM:a", "other:a", ":a", "npm:"] {
            assert_eq!(read(text), None, "{text:?}");
        }
        let requirement = |text| Requirement::of_installer(Installer::Gem, text);
        assert_eq!(
            requirement("rack").expect("valid"),
            requirement("gem:rack").expect("valid")
        );
        let error = requirement("npm:rack").expect_err("another");
        assert_eq!(error.kind(), ErrorKind::InvalidPolicy, "{error}");
    }

    #[test]
    fn unsupported_installer_is_a_typed_error() {
        for (text, word) in [
            ("apt:gcc", "image build"),
            ("cargo:serde", "vendored"),
            ("go:x", "image"),
        ] {
            let error = text.parse::<Requirement>().expect_err(text);
            assert_eq!(error.kind(), ErrorKind::LibrariesNotSupported, "{error}");
            assert!(error.fix().is_some_and(|fix| fix.contains(word)), "{error}");
            let listed = requirements(ErrorKind::InvalidSpec, "read", &[text.into()]);
            assert_eq!(
                listed.expect_err(text).kind(),
                ErrorKind::LibrariesNotSupported
            );
        }
    }

    #[test]
    fn one_name_may_have_two_installers() {
        let both = ["a".into(), "npm:a".into(), "gem:a".into()];
        let read = requirements(ErrorKind::InvalidSpec, "read", &both).expect("valid");
        assert_eq!(read.len(), 3);
        let twice = ["npm:a@1".into(), "npm:a".into()];
        requirements(ErrorKind::InvalidSpec, "read", &twice).expect_err("twice");
        let all = read[1].clone();
        assert!(all.provides(&"npm:a".parse().expect("valid")));
        assert!(!all.provides(&"gem:a".parse().expect("valid")));
        assert!(!all.provides(&"npm:a@1".parse().expect("valid")));
    }

    proptest! {
        #[test]
        fn accepted_text_is_one_word_without_options(text in "\\PC{0,40}") {
            if let Some(read) = read(&text) {
                prop_assert!(read.starts_with(|c: char| c.is_ascii_alphanumeric()), "{read:?}");
                let rest = read.strip_prefix("npm:").or(read.strip_prefix("gem:"));
                prop_assert!(!rest.unwrap_or(&read).contains(|c: char| c.is_whitespace() || ":;'\"$`\\|&(){}".contains(c)), "{read:?}");
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
