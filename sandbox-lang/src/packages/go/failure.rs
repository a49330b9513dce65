//! Classifies a failed installation by the output of the go command.

use sandbox_core::ErrorKind;

use super::super::interpreter::Home;
use super::super::recipe::RecipeFailure;

/// Words that mean that there is no such module, version or package.
const NOT_FOUND: [&str; 9] = [
    ": 404 Not Found",
    ": 410 Gone",
    "no matching versions for query",
    // Of a proxy that is a folder.
    "no such file or directory",
    "but does not contain package",
    "unknown revision",
    "unrecognized import path",
    "module lookup disabled by GOPROXY=off",
    "invalid version",
];

/// Words that mean that a proxy cannot be reached, and why.
const UNREACHABLE: [(&str, &str); 10] = [
    (
        "refusing to pass credentials",
        "its address has a password and no TLS",
    ),
    ("no such host", "its name is not known"),
    ("server misbehaving", "its name is not known"),
    ("connection refused", "connection refused"),
    ("connection reset", "the connection broke"),
    ("unreachable", "no network"),
    ("i/o timeout", "no answer in time"),
    ("handshake timeout", "no answer in time"),
    ("x509:", "its certificate is not trusted"),
    (": EOF", "the connection broke"),
];

/// Statuses of HTTP that say nothing about the module.
const STATUSES: [&str; 7] = ["401", "403", "407", "429", "500", "502", "503"];

pub(super) fn classify(stderr: &str, home: Home) -> RecipeFailure {
    if RecipeFailure::is_no_space(stderr) {
        return RecipeFailure::no_space();
    }
    let says = |words: &str| stderr.contains(words);
    let failed = |what: &str| RecipeFailure::new(ErrorKind::InstallFailed, what);
    if says("GOVCS disallows") {
        let what =
            "a module comes from a repository, whose own files could make its program run code";
        return RecipeFailure::new(ErrorKind::PackageNeedsBuild, what)
            .fix("use a module proxy that has it (GOPROXY)");
    }
    if says("checksum mismatch") || says("SECURITY ERROR") {
        return failed("a module is not the one that the database of checksums describes");
    }
    if says("requires go >=") || says("note: module requires Go") {
        return failed("a module needs a newer Go")
            .fix("name an older version of it, or use a newer Go");
    }
    if NOT_FOUND.iter().any(|words| says(words)) {
        let what = "the registry has no such module, version or package";
        return RecipeFailure::new(ErrorKind::PackageNotFound, what);
    }
    if let Some((_, why)) = UNREACHABLE.iter().find(|(words, _)| says(words)) {
        return RecipeFailure::unreachable(why, home);
    }
    match STATUSES.iter().find(|status| says(&format!(": {status} "))) {
        Some(status) => RecipeFailure::unreachable(&format!("it answered {status}"), home),
        None => failed("go failed"),
    }
}

/// The lines that say what failed.
pub(super) fn errors(stderr: &str) -> impl Iterator<Item = &str> {
    const PROGRESS: [&str; 7] = [
        "downloading ",
        "added ",
        "upgraded ",
        "finding ",
        "creating ",
        "to add ",
        "warning: ",
    ];
    let lines = stderr.lines().filter_map(|line| line.strip_prefix("go: "));
    lines.filter(|line| !PROGRESS.iter().any(|start| line.starts_with(start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_go_determine_the_error_kind() {
        use ErrorKind::*;
        for (words, kind) in [
            (
                "a.example/x: reading http://p/x/@v/list: 404 Not Found",
                PackageNotFound,
            ),
            (
                "a.example/x@v2: no matching versions for query \"v2\"",
                PackageNotFound,
            ),
            (
                "module a.example/x@latest found (v1.0.0), but does not contain package a.example/x/y",
                PackageNotFound,
            ),
            (
                "unrecognized import path \"x.example\": https fetch: dial tcp: lookup x.example: no such host",
                PackageNotFound,
            ),
            (
                "a.example/x: reading http://p/x/@v/list: 403 Forbidden",
                RegistryUnreachable,
            ),
            (
                "a.example/x: reading http://p/x/@v/list: 503 Service Unavailable",
                RegistryUnreachable,
            ),
            (
                "Get \"http://127.0.0.1:1/x/@v/list\": dial tcp 127.0.0.1:1: connect: connection refused",
                RegistryUnreachable,
            ),
            (
                "Get \"https://p/x\": tls: failed to verify certificate: x509: certificate signed by unknown authority",
                RegistryUnreachable,
            ),
            (
                "a.example/x: GOVCS disallows using git for public a.example/x; see 'go help vcs'",
                PackageNeedsBuild,
            ),
            (
                "a.example/x@v1: verifying module: checksum mismatch",
                InstallFailed,
            ),
            (
                "a.example/x@v1 requires go >= 1.30 (running go 1.19; GOTOOLCHAIN=local)",
                InstallFailed,
            ),
            ("write /x: no space left on device", StorageFull),
            ("what is new", InstallFailed),
        ] {
            let stderr = format!(
                "go: to add module requirements and sums:\ngo: downloading a.example/y v1.0.0\ngo: {words}\n"
            );
            assert_eq!(classify(&stderr, Home::Host).kind, kind, "{words}");
            assert_eq!(errors(&stderr).collect::<Vec<_>>(), [words]);
        }
    }
}
