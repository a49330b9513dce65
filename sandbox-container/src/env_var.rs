//! Environment variables that locate an engine. An empty one counts as unset, as in the engines'
//! own clients.

use std::ffi::OsString;
use std::path::PathBuf;

/// The value of a variable; `None` if it is unset, empty or not Unicode.
#[must_use]
pub fn text(name: &str) -> Option<String> {
    set(name)?.into_string().ok()
}

/// The path in a variable; `None` if it is unset or empty.
#[must_use]
pub fn path(name: &str) -> Option<PathBuf> {
    set(name).map(PathBuf::from)
}

fn set(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
