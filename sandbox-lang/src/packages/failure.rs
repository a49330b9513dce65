//! Classifies a failed installation by pip's output.

use sandbox_core::{Error, ErrorKind, Outcome};

use super::interpreter::Home;
use super::source::without_password;

const OPERATION: &str = "install packages";

/// The maximum length in bytes of pip's output in an error.
const MAX_OUTPUT: usize = 600;

/// The error of a failed installation. `stderr` is pip's standard error, `log` is pip's log about its
/// search.
pub(super) fn installation_error(
    outcome: &Outcome,
    stderr: &str,
    log: &str,
    packages: &str,
    home: Home,
) -> Error {
    let (kind, what, fix) = match outcome {
        Outcome::TimedOut => (
            ErrorKind::InstallTimedOut,
            "it took too long".to_owned(),
            Some("try again, name fewer packages, or allow more time"),
        ),
        Outcome::OutOfMemory => (
            ErrorKind::InstallFailed,
            "it took too much memory".to_owned(),
            Some("allow installations more memory"),
        ),
        Outcome::Exited { .. } => classify(stderr, log, home),
        other => (ErrorKind::InstallFailed, format!("pip {other}"), None),
    };
    let mut context = format!("{packages}: {what}");
    let words = end_of_output(stderr);
    if !words.is_empty() {
        context += &format!("; pip says: {words}");
    }
    let error = Error::new(kind, OPERATION, context);
    match fix {
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

fn classify(stderr: &str, log: &str, home: Home) -> (ErrorKind, String, Option<&'static str>) {
    let any = |words: &[&str]| words.iter().any(|word| stderr.contains(word));
    if any(&[
        "No space left on device",
        "Disk quota exceeded",
        "File too large",
    ]) {
        return (
            ErrorKind::StorageFull,
            "there is no space for it".into(),
            Some("make space on the disk of the cache, or set XDG_CACHE_HOME to another one"),
        );
    }
    if any(&["No module named pip"]) {
        return (
            ErrorKind::InstallFailed,
            "the Python that sandboxes see has no pip".into(),
            Some(home.provide_pip()),
        );
    }
    let Some(missing) = missing_requirement(stderr) else {
        if let Some(why) = unreachable_reason(stderr) {
            return index_unreachable(why, home);
        }
        let what = match any(&["ResolutionImpossible", "conflicting dependencies"]) {
            true => "the packages contradict each other",
            false => "pip failed",
        };
        return (ErrorKind::InstallFailed, what.into(), None);
    };
    // Versions were found, so the index answered, but none matches.
    if !stderr.contains("(from versions: none)") {
        return (
            ErrorKind::PackageNotFound,
            format!("no version of {missing} will do for this Python"),
            None,
        );
    }
    if log.contains(&format!(
        "No sources permitted for {}:",
        package_name(&missing)
    )) {
        return (
            ErrorKind::PackageNeedsBuild,
            format!(
                "{missing} is there as source alone, and building it would run its code with the network"
            ),
            Some("name a version that has wheels, or build a wheel elsewhere"),
        );
    }
    // pip also reports an unreachable index as a missing package.
    if let Some(why) = unreachable_reason(stderr).or_else(|| refusal_reason(log)) {
        return index_unreachable(why, home);
    }
    (
        ErrorKind::PackageNotFound,
        format!("the registry has no {missing} with a wheel for this Python and machine"),
        None,
    )
}

fn index_unreachable(why: String, home: Home) -> (ErrorKind, String, Option<&'static str>) {
    (
        ErrorKind::RegistryUnreachable,
        format!("the registry cannot be reached ({why})"),
        Some(home.reach_registry()),
    )
}

/// The requirement for which pip found nothing.
fn missing_requirement(stderr: &str) -> Option<String> {
    let (_, rest) = stderr.rsplit_once("No matching distribution found for ")?;
    let word = rest.split_whitespace().next()?;
    Some(word.trim_end_matches(';').chars().take(80).collect())
}

/// The name in a requirement, as pip writes it.
fn package_name(requirement: &str) -> &str {
    let end = requirement.find(['=', '<', '>', '!', '~', '[', ';', '(', ' ']);
    &requirement[..end.unwrap_or(requirement.len())]
}

/// Why the index is unreachable, from pip's messages.
fn unreachable_reason(stderr: &str) -> Option<String> {
    const REASONS: [(&str, &str); 9] = [
        ("name resolution", "its name is not known"),
        ("Name or service not known", "its name is not known"),
        ("Network is unreachable", "no network"),
        ("Connection refused", "connection refused"),
        (
            "CERTIFICATE_VERIFY_FAILED",
            "its certificate is not trusted",
        ),
        ("ProxyError", "the proxy refuses"),
        ("timed out", "no answer in time"),
        ("connection broken by", "the connection broke"),
        (
            "problem confirming the ssl certificate",
            "its certificate is not trusted",
        ),
    ];
    REASONS
        .into_iter()
        .find(|(word, _)| stderr.contains(word))
        .map(|(_, reason)| reason.to_owned())
        .or_else(|| refusal_reason(stderr))
}

/// A response of the index that is neither a page nor "not found".
fn refusal_reason(text: &str) -> Option<String> {
    const CODES: [&str; 9] = [
        "401 Client Error",
        "403 Client Error",
        "407 Client Error",
        "429 Client Error",
        "500 Server Error",
        "502 Server Error",
        "503 Server Error",
        "504 Server Error",
        "HTTP error 403",
    ];
    let code = CODES.into_iter().find(|code| text.contains(code))?;
    Some(format!("it answered {code}"))
}

/// The end of pip's output: its errors, or else its last lines. One line of limited length, without
/// passwords and control characters.
fn end_of_output(stderr: &str) -> String {
    let errors = stderr
        .lines()
        .filter_map(|line| line.strip_prefix("ERROR: "));
    let mut lines = errors.collect::<Vec<_>>();
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

    const MISSING: &str = "ERROR: Could not find a version that satisfies the requirement docopt (from versions: none)\n\
                           ERROR: No matching distribution found for docopt\n";

    fn kind(stderr: &str, log: &str) -> ErrorKind {
        classify(stderr, log, Home::Host).0
    }

    #[test]
    fn pip_output_determines_the_error_kind() {
        let log =
            "Skipping link: No sources permitted for docopt: https://r.example/docopt-0.1.tar.gz";
        assert_eq!(kind(MISSING, log), ErrorKind::PackageNeedsBuild);
        assert_eq!(kind(MISSING, ""), ErrorKind::PackageNotFound);
        let other = "No sources permitted for docopt-ng: https://r.example/x.tar.gz";
        assert_eq!(kind(MISSING, other), ErrorKind::PackageNotFound);
        let retried = format!(
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError: [Errno -3] Temporary failure in name resolution'\n{MISSING}"
        );
        assert_eq!(kind(&retried, ""), ErrorKind::RegistryUnreachable);
        let denied = "Could not fetch URL https://r.example/simple/docopt/: 403 Client Error: Forbidden - skipping";
        assert_eq!(kind(MISSING, denied), ErrorKind::RegistryUnreachable);
        let old = "ERROR: Could not find a version that satisfies the requirement six==99 (from versions: 1.16.0, 1.17.0)\n\
                   ERROR: No matching distribution found for six==99";
        assert_eq!(kind(old, ""), ErrorKind::PackageNotFound);
        let full = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device";
        assert_eq!(kind(full, ""), ErrorKind::StorageFull);
        let contradiction = "ERROR: Cannot install a==1 and b==2 because these package versions have conflicting dependencies.\n\
                             ERROR: ResolutionImpossible: for help visit …";
        assert_eq!(kind(contradiction, ""), ErrorKind::InstallFailed);
        let none = "/usr/bin/python3: No module named pip";
        assert_eq!(kind(none, ""), ErrorKind::InstallFailed);
        let fixes = [Home::Host, Home::Image].map(|home| classify(none, "", home).2);
        assert!(fixes.iter().all(Option::is_some) && fixes[0] != fixes[1]);
    }

    #[test]
    fn pip_output_in_errors_is_limited_and_clean() {
        let stderr = format!(
            "noise\nERROR: \x1b[31mbad\x1b[0m https://user:secret@r.example/x\nERROR: {}\n",
            "ä".repeat(2000)
        );
        let words = end_of_output(&stderr);
        assert!(
            words.len() <= MAX_OUTPUT + 4 && words.ends_with('ä'),
            "{words}"
        );
        let words = end_of_output("ERROR: \x1b[31mbad https://user:secret@r.example/x\n");
        assert!(
            !words.contains('\x1b') && !words.contains("secret"),
            "{words}"
        );
        assert_eq!(end_of_output(""), "");
        assert_eq!(end_of_output("a\nb\nc\nd\n"), "b | c | d");
    }
}
