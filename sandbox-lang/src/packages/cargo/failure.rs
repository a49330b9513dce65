//! Classifies a failed installation by cargo's output.

use sandbox_core::ErrorKind;

use super::super::interpreter::Home;
use super::super::recipe::RecipeFailure;

/// Words that mean that there is no such package, version or feature.
const NOT_FOUND: [&str; 6] = [
    "no matching package",
    "failed to select a version for the requirement",
    "does not have that feature",
    "does not have these features",
    "doesn't have a feature",
    "not found in registry",
];

/// Words that mean that the registry cannot be reached, and why.
const UNREACHABLE: [(&str, &str); 9] = [
    ("resolve host", "its name is not known"),
    ("onnect to server", "connection refused"),
    ("ailed to connect", "connection refused"),
    ("imeout was reached", "no answer in time"),
    ("imed out", "no answer in time"),
    ("SSL", "its certificate is not trusted"),
    ("got 401", "it answered 401"),
    ("got 403", "it answered 403"),
    (
        "failed to get successful HTTP response",
        "its answer is an error",
    ),
];

pub(super) fn classify(stderr: &str, home: Home) -> RecipeFailure {
    if RecipeFailure::is_no_space(stderr) {
        return RecipeFailure::no_space();
    }
    let says = |words: &&str| stderr.contains(*words);
    let failed = |what: &str| RecipeFailure::new(ErrorKind::InstallFailed, what);
    if NOT_FOUND.iter().any(says) {
        let what = "the registry has no such package, version or feature";
        return RecipeFailure::new(ErrorKind::PackageNotFound, what);
    }
    if stderr.contains("failed to select a version for") {
        return failed("the packages contradict each other");
    }
    if stderr.contains("failed to verify the checksum") {
        return failed("an archive is not the one that the registry describes");
    }
    if stderr.contains("is required") && stderr.contains("feature `edition") {
        return failed("a package needs a newer cargo")
            .fix("name an older version of it, or use a newer Rust");
    }
    match UNREACHABLE.iter().find(|(words, _)| says(words)) {
        Some((_, why)) => RecipeFailure::unreachable(why, home),
        None => failed("cargo failed"),
    }
}

/// The first lines after the word: each cause is a line of its own.
pub(super) fn errors(stderr: &str) -> Vec<&str> {
    let lines = stderr
        .lines()
        .skip_while(|line| !line.starts_with("error: "));
    let lines = lines.map(|line| line.strip_prefix("error: ").unwrap_or(line).trim());
    let lines = lines.filter(|line| !line.is_empty() && *line != "Caused by:");
    lines.take(4).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_cargo_determine_the_error_kind() {
        use ErrorKind::*;
        for (words, kind) in [
            ("no matching package named `x` found", PackageNotFound),
            (
                "failed to select a version for the requirement `x = \"^3\"`",
                PackageNotFound,
            ),
            ("failed to select a version for `x`.", InstallFailed),
            (
                "download of config.json failed\n\nCaused by:\n  [6] Could not resolve hostname (Could not resolve host: r.example)",
                RegistryUnreachable,
            ),
            (
                "download of config.json failed\n\nCaused by:\n  [7] Could not connect to server",
                RegistryUnreachable,
            ),
            (
                "failed to get successful HTTP response from `http://r`, got 403",
                RegistryUnreachable,
            ),
            (
                "failed to write `/x`\n\nCaused by:\n  No space left on device (os error 28)",
                StorageFull,
            ),
            ("failed to verify the checksum of `x v1.0.0`", InstallFailed),
            ("what is new", InstallFailed),
        ] {
            let stderr = format!("warning: x\nerror: {words}\n");
            assert_eq!(classify(&stderr, Home::Host).kind, kind, "{words}");
            let first = words.lines().next();
            assert_eq!(errors(&stderr).first().copied(), first);
        }
        assert_eq!(errors("error: a\n\nCaused by:\n  b\n"), ["a", "b"]);
    }
}
