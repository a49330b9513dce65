//! Variables of this process's environment that say where an engine is. An empty one counts as one that is not set, as for the engines'
//! own clients.

use std::ffi::OsString;
use std::path::PathBuf;

/// A variable's text; `None` where it is not set, or empty, or no Unicode.
#[must_use]
pub fn text(name: &str) -> Option<String> {
    set(name)?.into_string().ok()
}

/// The path that a variable names; `None` where it is not set or empty.
#[must_use]
pub fn path(name: &str) -> Option<PathBuf> {
    set(name).map(PathBuf::from)
}

fn set(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
