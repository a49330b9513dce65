//! What installs packages.

use crate::{Error, ErrorKind, Result};

/// What installs packages of a registry. Each has a prefix in requirements (`npm:lodash`), which
/// pip's packages do not need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Installer {
    /// Python's pip.
    Pip,
    /// npm, of JavaScript and TypeScript.
    Npm,
    /// Ruby's gem.
    Gem,
    /// Modules of Go.
    Go,
    /// cargo, of Rust.
    Cargo,
    /// CRAN's packages, of R.
    Cran,
}

impl Installer {
    /// All installers.
    pub const ALL: [Self; 6] = [
        Self::Pip,
        Self::Npm,
        Self::Gem,
        Self::Go,
        Self::Cargo,
        Self::Cran,
    ];

    /// The name, which is the prefix of its requirements: `pip`, `npm`, `gem`, `go`, `cargo` or
    /// `cran`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pip => "pip",
            Self::Npm => "npm",
            Self::Gem => "gem",
            Self::Go => "go",
            Self::Cargo => "cargo",
            Self::Cran => "cran",
        }
    }
}

/// Installers that this library does not run, and where their packages can come from instead.
const OTHERS: [(&str, &str); 2] = [
    (
        "apt",
        "packages of the system change programs that run as root; derive an image that has them (a build file with `RUN apt-get install`, `sandbox image build`)",
    ),
    ("conda", "use an image that has them"),
];

/// The installer that a requirement's prefix names, and the rest.
pub(super) fn prefix(text: &str) -> Result<(Option<Installer>, &str)> {
    let Some((prefix, rest)) = text.trim_start().split_once(':') else {
        return Ok((None, text));
    };
    if let Some(installer) = Installer::ALL
        .into_iter()
        .find(|own| own.as_str() == prefix)
    {
        return Ok((Some(installer), rest));
    }
    let other = OTHERS.into_iter().find(|(name, _)| *name == prefix);
    let Some((name, fix)) = other else {
        return Ok((None, text));
    };
    let context = format!("{text:?}: packages of {name} are not installed into sandboxes");
    Err(Error::new(ErrorKind::LibrariesNotSupported, "read package", context).with_fix(fix))
}
