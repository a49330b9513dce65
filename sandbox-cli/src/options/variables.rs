//! Environment variables: `--env` and `--env-file`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::values::text;
use crate::command_error::CommandError;

/// The variables of the files and then of the pairs; a later one takes precedence.
pub fn variables(
    files: &[PathBuf],
    pairs: &[OsString],
) -> Result<BTreeMap<String, String>, CommandError> {
    let mut variables = BTreeMap::new();
    for file in files {
        let content = std::fs::read_to_string(file)
            .map_err(|error| CommandError::io(format!("--env-file {}", file.display()), &error))?;
        variables.extend(lines(&content).map_err(|(number, line)| {
            let why = format!("--env-file {}: line {number}: {line:?}", file.display());
            not_a_pair(&why)
        })?);
    }
    for pair in pairs {
        let (name, value) = variable(pair)?;
        variables.insert(name, value);
    }
    Ok(variables)
}

/// The variables in a file as Docker reads it: one in each line, without quotes. Fails with the
/// number and the name in the line that has no value.
fn lines(content: &str) -> Result<BTreeMap<String, String>, (usize, String)> {
    let mut variables = BTreeMap::new();
    for (index, line) in content.lines().enumerate() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                variables.insert(name.to_owned(), value.to_owned());
            }
            // The line may hold a secret: only its name is shown.
            other => {
                let name = other.map_or(line, |(name, _)| name);
                return Err((index + 1, name.to_owned()));
            }
        }
    }
    Ok(variables)
}

/// `NAME=VALUE`.
fn variable(pair: &OsStr) -> Result<(String, String), CommandError> {
    let text = text("--env", pair)?;
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(not_a_pair(&format!("--env {text:?}"))),
    }
}

fn not_a_pair(what: &str) -> CommandError {
    CommandError::argument(format!("{what}: write NAME=VALUE"))
        .with_fix("variables of the host are not passed on: write -e NAME=\"$NAME\" to pass one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_require_a_name_and_a_value() {
        assert_eq!(
            variable(OsStr::new("A=b=c")).unwrap(),
            ("A".into(), "b=c".into())
        );
        assert_eq!(
            variable(OsStr::new("A=")).unwrap(),
            ("A".into(), String::new())
        );
        assert!(variable(OsStr::new("HOME")).is_err());
        assert!(variable(OsStr::new("=x")).is_err());
    }

    #[test]
    fn file_has_one_variable_in_each_line() {
        let read = lines("# comment\n\nA=1\n  B=x = 'y' # z\nA=2\n").unwrap();
        let expected = [("A", "2"), ("B", "x = 'y' # z")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read, BTreeMap::from(expected));
        assert_eq!(lines("A=1\nHOME\n"), Err((2, "HOME".to_owned())));
        assert_eq!(lines("=secret"), Err((1, String::new())));
    }

    #[test]
    fn option_takes_precedence_over_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("env");
        std::fs::write(&file, "A=file\nB=file\n").unwrap();
        let read = variables(&[file], &["A=option".into()]).unwrap();
        assert_eq!(read["A"], "option");
        assert_eq!(read["B"], "file");
        let error = variables(&[folder.path().join("none")], &[]).unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
    }
}
