//! The languages that can be scanned. Each has a table of its syntax, and of what its standard
//! library does.

mod python;

use super::Dialect;

/// How to scan a language, by its name in `sandbox_lang`.
pub(crate) fn dialect(name: &str) -> Option<&'static Dialect> {
    let all = [&python::DIALECT];
    all.into_iter().find(|dialect| dialect.name == name)
}
