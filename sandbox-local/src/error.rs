//! Constructors for this backend's errors.

use std::error::Error as StdError;
use std::path::Path;

use sandbox_core::{Error, ErrorKind};
use sandbox_host::safe_path::PathError;

const CREATE: &str = "create sandbox";

/// A setup step failed.
pub(crate) fn setup(
    tier: &str,
    what: impl Into<String>,
    cause: impl Into<Box<dyn StdError + Send + Sync>>,
) -> Error {
    Error::new(ErrorKind::SetupFailed, CREATE, what)
        .on(tier)
        .with_source(cause)
}

/// The specification asks for something this backend does not support.
pub(crate) fn invalid_spec(tier: &str, what: impl Into<String>, fix: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidSpec, CREATE, what)
        .on(tier)
        .with_fix(fix)
}

/// This backend, or this host, has no such feature.
pub(crate) fn unsupported(tier: &str, what: impl Into<String>, fix: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, CREATE, what)
        .on(tier)
        .with_fix(fix)
}

/// The policy names something that this backend cannot provide.
pub(crate) fn invalid_policy(tier: &str, what: impl Into<String>, fix: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidPolicy, CREATE, what)
        .on(tier)
        .with_fix(fix)
}

/// A host path of the plan cannot be used.
pub(crate) fn path(
    tier: &str,
    role: &str,
    path: &Path,
    cause: impl Into<Box<dyn StdError + Send + Sync>>,
) -> Error {
    Error::new(
        ErrorKind::InvalidPolicy,
        CREATE,
        format!("{role} {}", path.display()),
    )
    .on(tier)
    .with_source(cause)
}

/// A host path could not be opened, perhaps because of a link in it.
pub(crate) fn link(tier: &str, role: &str, named: &Path, cause: PathError) -> Error {
    match cause.fix() {
        Some(fix) => path(tier, role, named, cause).with_fix(fix),
        None => path(tier, role, named, cause),
    }
}

/// A process could not be ended, or a resource could not be removed.
pub(crate) fn destroy(tier: &str, what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Io, "destroy sandbox", what).on(tier)
}
