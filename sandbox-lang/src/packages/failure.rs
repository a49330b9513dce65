//! Errors of failed installations.

use sandbox_core::policy::Installer;
use sandbox_core::{Error, ErrorKind, Outcome};

use super::interpreter::Home;
use super::pip::without_password;
use super::recipe::{RecipeFailure, recipe};

const OPERATION: &str = "install packages";

/// The maximum length in bytes of an installer's output in an error.
const MAX_OUTPUT: usize = 600;

/// The error of a failed installation. `stderr` is the installer's standard error, `log` is its log.
pub(super) fn installation_error(
    installer: Installer,
    outcome: &Outcome,
    (stderr, log): (&str, &str),
    packages: &str,
    home: Home,
) -> Error {
    let name = installer.as_str();
    let failure = match outcome {
        Outcome::TimedOut => RecipeFailure::new(ErrorKind::InstallTimedOut, "it took too long")
            .fix("try again, name fewer packages, or allow more time"),
        Outcome::OutOfMemory => {
            RecipeFailure::new(ErrorKind::InstallFailed, "it took too much memory")
                .fix("allow installations more memory")
        }
        Outcome::Exited { .. } => recipe(installer).classify(stderr, log, home),
        other => RecipeFailure::new(ErrorKind::InstallFailed, format!("{name} {other}")),
    };
    let mut context = format!("{packages}: {}", failure.what);
    let words = message(installer, stderr);
    if !words.is_empty() {
        context += &format!("; {name} says: {words}");
    }
    let error = Error::new(failure.kind, OPERATION, context);
    match failure.fix {
        Some(fix) => error.with_fix(fix),
        None => error,
    }
}

/// The packages exceed the disk limit.
pub(super) fn too_large(packages: &str, limit: sandbox_core::ByteSize) -> Error {
    Error::new(
        ErrorKind::StorageFull,
        OPERATION,
        format!("{packages}: larger than the {limit} that installed packages may take"),
    )
    .with_fix("name fewer packages, or allow more storage")
}

/// The installation exceeded its time limit.
pub(super) fn too_slow(packages: &str, limit: std::time::Duration) -> Error {
    Error::new(
        ErrorKind::InstallTimedOut,
        OPERATION,
        format!(
            "{packages}: not within {limit:?}, another installation of the same packages included"
        ),
    )
    .with_fix("try again, name fewer packages, or allow more time")
}

/// What an installer says: its errors, or else its last lines. One line of limited length, without
/// passwords and control characters.
fn message(installer: Installer, stderr: &str) -> String {
    let mut lines = recipe(installer).errors(stderr);
    if lines.is_empty() {
        lines = stderr
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
    }
    let from = lines.len().saturating_sub(3);
    let words = lines[from..].join(" | ");
    let words = words
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect::<String>();
    let words = without_password(&words);
    if words.len() <= MAX_OUTPUT {
        return words;
    }
    let mut start = words.len() - MAX_OUTPUT;
    while !words.is_char_boundary(start) {
        start += 1;
    }
    format!("…{}", &words[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_in_errors_is_limited_and_clean() {
        let stderr = format!(
            "noise\nERROR: \x1b[31mbad\x1b[0m https://user:secret@r.example/x\nERROR: {}\n",
            "ä".repeat(2000)
        );
        let words = message(Installer::Pip, &stderr);
        assert!(
            words.len() <= MAX_OUTPUT + 4 && words.ends_with('ä'),
            "{words}"
        );
        let words = message(
            Installer::Pip,
            "ERROR: \x1b[31mbad https://user:secret@r.example/x\n",
        );
        assert!(
            !words.contains('\x1b') && !words.contains("secret"),
            "{words}"
        );
        assert_eq!(message(Installer::Pip, ""), "");
        assert_eq!(message(Installer::Pip, "a\nb\nc\nd\n"), "b | c | d");
        let npm = "npm error code E404\nnpm error 404 No x\nnpm error 404\nnpm error a\nnpm error b\nnpm error c\n";
        assert_eq!(message(Installer::Npm, npm), "404 No x | a | b");
        let gem = "noise\nsandbox-gem: failed\nerror: no\n";
        assert_eq!(message(Installer::Gem, gem), "no");
    }
}
