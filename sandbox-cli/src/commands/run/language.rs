//! The language of a program: those that [`Languages`] knows, by name, alias or extension.

use std::path::Path;

use sandbox::{Error, Language, Languages};

/// The language with a name, for the command line.
pub fn parse(name: &str) -> Result<Language, String> {
    let known = |error: Error| format!("{}; {}", error.context(), error.fix().unwrap_or_default());
    Languages::new().get(name).cloned().map_err(known)
}

/// The language of the file's extension.
pub fn of_path(path: &Path) -> Option<Language> {
    Languages::new().of_path(path).cloned()
}

/// The language of code without a name: Python.
pub fn default() -> Language {
    parse("python").expect("the library has Python")
}

/// Whether it is a shell, whose scripts may name another one in their first line.
pub fn is_shell(language: &Language) -> bool {
    ["sh", "bash"].contains(&language.name.as_str())
}
