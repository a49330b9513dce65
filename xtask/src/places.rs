//! Where the tasks keep state and caches, after the XDG base directory rules.

use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// The folder for records of what was started: `$XDG_STATE_HOME/sandbox-xtask`, else
/// `~/.local/state/sandbox-xtask`. It is not created here.
///
/// # Errors
/// When neither `XDG_STATE_HOME` nor `HOME` is an absolute path.
pub fn state_folder() -> Result<PathBuf> {
    let base = base_folder("XDG_STATE_HOME", ".local/state", environment)?;
    Ok(base.join("sandbox-xtask"))
}

/// The folder for what is kept under `name`, such as images: `$SANDBOX_CACHE/NAME`, else
/// `$XDG_CACHE_HOME/sandbox/NAME`, else `~/.cache/sandbox/NAME`. It is not created here.
///
/// # Errors
/// When none of the three variables is an absolute path, or `SANDBOX_CACHE` is a relative one.
pub fn cache_folder(name: &str) -> Result<PathBuf> {
    Ok(cache_folder_from(environment)?.join(name))
}

fn cache_folder_from(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf> {
    match variable("SANDBOX_CACHE") {
        Some(folder) if folder.is_absolute() => Ok(folder),
        Some(folder) => Err(Failure::new(format!(
            "SANDBOX_CACHE is '{}', which is not an absolute path",
            folder.display()
        ))
        .with_fix("set SANDBOX_CACHE to an absolute path or unset it")),
        None => Ok(base_folder("XDG_CACHE_HOME", ".cache", variable)?.join("sandbox")),
    }
}

/// The user's home folder.
pub fn home_folder() -> Option<PathBuf> {
    environment("HOME").filter(|home| home.is_absolute())
}

fn base_folder(
    name: &str,
    below_home: &str,
    variable: impl Fn(&str) -> Option<PathBuf>,
) -> Result<PathBuf> {
    // The XDG rules say that a relative value is invalid and must be ignored.
    let absolute = |name: &str| variable(name).filter(|path| Path::is_absolute(path));
    absolute(name)
        .or_else(|| absolute("HOME").map(|home| home.join(below_home)))
        .ok_or_else(|| Failure::new(format!("neither {name} nor HOME is an absolute path")))
}

fn environment(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<PathBuf> {
        move |name| {
            pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.into())
        }
    }

    #[test]
    fn own_variable_wins_then_xdg_then_home() {
        let own = variables(&[
            ("SANDBOX_CACHE", "/c"),
            ("XDG_CACHE_HOME", "/x"),
            ("HOME", "/h"),
        ]);
        assert_eq!(cache_folder_from(own), Ok("/c".into()));
        let xdg = variables(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]);
        assert_eq!(cache_folder_from(xdg), Ok("/x/sandbox".into()));
        let relative = variables(&[("XDG_CACHE_HOME", "x"), ("HOME", "/h")]);
        assert_eq!(cache_folder_from(relative), Ok("/h/.cache/sandbox".into()));
    }

    #[test]
    fn no_usable_variable_is_an_error() {
        assert!(cache_folder_from(variables(&[])).is_err());
        let relative = variables(&[("SANDBOX_CACHE", "here"), ("HOME", "/h")]);
        assert!(cache_folder_from(relative).is_err());
    }
}
