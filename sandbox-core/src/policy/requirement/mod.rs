//! Package names with version constraints.

mod cargo;
mod cran;
mod gem;
mod go;
mod installer;
mod lock;
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
/// | cargo | `cargo:itoa`, `cargo:serde[derive]@1`, `cargo:rand>=0.8,<0.10` |
/// | cran | `cran:jsonlite`, `cran:jsonlite==1.8.9`, `cran:ggplot2>=3.5` |
/// | go | `go:example.org/greet`, `go:example.org/greet@v1.2.0`, `go:example.org/greet@v1` |
///
/// A package of pip in one version may have hashes of its files, as a lock file has:
/// `numpy==1.26.4#sha256:…`, with `#sha256:` before each. Then only such a file is installed.
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
    /// SHA-256 of files, in lower case, sorted.
    hashes: Vec<String>,
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

    /// The packages of a lock file of pip: lines of `NAME==VERSION --hash=sha256:…`, as
    /// `pip-compile --generate-hashes` and `uv export` write them.
    ///
    /// ```
    /// # use sandbox_core::policy::Requirement;
    /// let hash = "0123456789abcdef".repeat(4);
    /// let packages = Requirement::read_lock_file(&format!("six==1.16.0 \\\n    --hash=sha256:{hash}\n"))?;
    /// assert_eq!(packages[0].to_string(), format!("six==1.16.0#sha256:{hash}"));
    /// # Ok::<(), sandbox_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPolicy`] for a package without a version or hash, an option and a
    /// condition.
    pub fn read_lock_file(text: &str) -> Result<Vec<Self>> {
        lock::read(text)
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

    /// Its extras, or features of cargo, sorted.
    pub fn extras(&self) -> impl Iterator<Item = &str> {
        self.extras.iter().map(String::as_str)
    }

    /// The operators and versions, sorted. For npm, gem, cargo and cran, `==` is an exact version; for
    /// go, it is one with three numbers.
    pub fn versions(&self) -> impl Iterator<Item = (&str, &str)> {
        let versions = self.versions.iter();
        versions.map(|(operator, version)| (*operator, version.as_str()))
    }

    /// SHA-256 of its files, in lower case, sorted. Empty if any file will do.
    pub fn hashes(&self) -> impl Iterator<Item = &str> {
        self.hashes.iter().map(String::as_str)
    }

    /// The same package for which any file will do.
    #[must_use]
    pub fn without_hashes(&self) -> Self {
        Self {
            hashes: Vec::new(),
            ..self.clone()
        }
    }

    /// Whether `asked` is this requirement, or this one with hashes.
    #[must_use]
    pub fn allows(&self, asked: &Self) -> bool {
        self == asked || *self == asked.without_hashes()
    }

    /// Whether both are requirements of one package.
    #[must_use]
    pub fn is_same_package(&self, other: &Self) -> bool {
        self.installer == other.installer && self.name == other.name
    }

    /// Whether this package is what `asked` asks for: the same requirement, perhaps with hashes, or
    /// any version.
    #[must_use]
    pub fn provides(&self, asked: &Self) -> bool {
        let is_any = asked.extras.is_empty() && asked.versions.is_empty();
        asked.allows(self) || (is_any && self.is_same_package(asked))
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
        let has_at = matches!(
            self.installer,
            Installer::Npm | Installer::Go | Installer::Cargo
        );
        if has_at && !self.versions.is_empty() {
            f.write_str("@")?;
        }
        for (number, (operator, version)) in self.versions.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            let operator = match (self.installer, *operator) {
                (Installer::Npm | Installer::Go, "==") => "",
                (Installer::Cargo, "==") => "=",
                (_, operator) => operator,
            };
            write!(f, "{comma}{operator}{version}")?;
        }
        for hash in &self.hashes {
            write!(f, "#sha256:{hash}")?;
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
        Installer::Cargo => "cargo:itoa or cargo:itoa@1",
        Installer::Cran => "cran:jsonlite or cran:jsonlite==1.8.9",
        Installer::Go => "go:example.org/greet or go:example.org/greet@v1.2.0",
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
    let (text, hashes) = lock::split(installer, text)?;
    if text.len() > MAX_LENGTH || text.chars().any(|c| c.is_control() || !c.is_ascii()) {
        return None;
    }
    let text = text.trim();
    let mut requirement = match installer {
        Installer::Pip => python::parse(text),
        Installer::Npm => npm::parse(text),
        Installer::Gem => gem::parse(text),
        Installer::Cargo => cargo::parse(text),
        Installer::Cran => cran::parse(text),
        Installer::Go => go::parse(text),
    }?;
    requirement.versions.sort();
    requirement.versions.dedup();
    requirement.hashes = hashes;
    (requirement.hashes.is_empty() || lock::is_exact(&requirement)).then_some(requirement)
}

/// The numbers of a version as in `1.2.0-rc.1`: how many there are, and whether a prerelease
/// follows. `None` if it is not of this form, or has more than three.
fn numbers(version: &str) -> Option<(usize, bool)> {
    let (numbers, prerelease) = match version.split_once('-') {
        Some((numbers, prerelease)) => (numbers, Some(prerelease)),
        None => (version, None),
    };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    let is_label = |part: &str| {
        !part.is_empty() && part.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
    };
    let count = numbers.split('.').count();
    let is_version = count <= 3
        && numbers.split('.').all(is_number)
        && prerelease.is_none_or(|labels| labels.split('.').all(is_label));
    is_version.then_some((count, prerelease.is_some()))
}

/// Comparisons in which `=` is the same as `==`.
fn with_exact(versions: Vec<(&'static str, String)>) -> Vec<(&'static str, String)> {
    let exact = |(operator, version)| match operator {
        "=" => ("==", version),
        operator => (operator, version),
    };
    versions.into_iter().map(exact).collect()
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

/// A requirement as it is written back, which reads as the same one.
#[cfg(test)]
fn read_back(text: &str) -> Option<String> {
    let read = text.parse::<Requirement>().ok()?;
    let again = read.to_string().parse::<Requirement>().ok();
    assert_eq!(again, Some(read.clone()), "{text}");
    Some(read.to_string())
}

#[cfg(test)]
mod tests;
