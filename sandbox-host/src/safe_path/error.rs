//! Why a path was not opened.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_core::spi::escape;
use sandbox_core::{Error, ErrorKind};

use super::Link;

/// Why a link is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkReason {
    /// Code can write to the link's folder.
    CodeCanWrite,
    /// The link leaves its folder.
    LeavesFolder,
    /// The link is an output folder, or is below the working folder and leads to one.
    OutputFolder,
}

/// Why a path was not opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum PathError {
    /// The kernel refused a step.
    System {
        /// The part of the path, if not all of it.
        at: Option<PathBuf>,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A link in the path is refused.
    Link {
        /// The path of the link.
        at: PathBuf,
        /// The link's target.
        target: PathBuf,
        /// Why it is refused.
        reason: LinkReason,
    },
}

impl PathError {
    pub(super) fn link(link: &Link, reason: LinkReason) -> Self {
        Self::Link {
            at: link.at.clone(),
            target: link.target.clone(),
            reason,
        }
    }

    pub(super) fn system(at: &Path, whole: &Path, cause: impl Into<io::Error>) -> Self {
        Self::System {
            at: (at != whole).then(|| at.to_owned()),
            cause: cause.into(),
        }
    }

    /// How to fix a refused link; `None` for other errors.
    #[must_use]
    pub fn fix(&self) -> Option<String> {
        let Self::Link { at, target, reason } = self else {
            return None;
        };
        Some(match reason {
            LinkReason::CodeCanWrite => format!(
                "look where {} leads, and name the folder or file that is meant",
                text(at)
            ),
            LinkReason::LeavesFolder => format!(
                "name {} instead, or pass --follow (follow_links = true in a policy file)",
                text(&at.parent().unwrap_or(Path::new("/")).join(target))
            ),
            LinkReason::OutputFolder => format!(
                "name {} instead, if that is the folder that is meant",
                text(&at.parent().unwrap_or(Path::new("/")).join(target))
            ),
        })
    }
}

impl PathError {
    /// Converts it to the error of an operation on `path`, with a fix.
    #[must_use]
    pub fn into_error(self, operation: &'static str, path: &Path) -> Error {
        let error = Error::new(ErrorKind::Io, operation, format!("{}: {self}", text(path)));
        match self.fix() {
            Some(fix) => error.with_fix(fix),
            None => error,
        }
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System { at: None, cause } => cause.fmt(formatter),
            Self::System {
                at: Some(at),
                cause,
            } => write!(formatter, "{}: {cause}", text(at)),
            Self::Link { at, target, reason } => {
                let why = match reason {
                    LinkReason::CodeCanWrite => "in a folder that the code can write to",
                    LinkReason::LeavesFolder => "outside of the folder that it stands in",
                    LinkReason::OutputFolder => "on the way to an output folder",
                };
                write!(
                    formatter,
                    "{} is a link to {}, {why}",
                    text(at),
                    text(target)
                )
            }
        }
    }
}

impl std::error::Error for PathError {}

impl From<PathError> for io::Error {
    fn from(error: PathError) -> Self {
        match error {
            PathError::System { at: None, cause } => cause,
            PathError::System { ref cause, .. } => Self::new(cause.kind(), error.to_string()),
            PathError::Link { .. } => Self::other(error),
        }
    }
}

/// Formats a path for an error. Code may have chosen its bytes.
fn text(path: &Path) -> String {
    escape(&path.to_string_lossy())
}
