//! Requirements of Go: the path of a module or of a package in it, perhaps with a version.
//!
//! The go command would read more: `latest`, branches, commits, comparisons, patterns with `...`
//! and relative paths. None of them can be written here: a version begins with `v` and a digit, and
//! no part of a path begins or ends with a dot.

use super::{Installer, Requirement, is_name_char, numbers};

pub(super) fn parse(text: &str) -> Option<Requirement> {
    let (path, version) = match text.split_once('@') {
        Some((path, version)) => (path.trim_end(), Some(version.trim_start())),
        None => (text, None),
    };
    if !is_path(path) || !version.is_none_or(is_version) {
        return None;
    }
    let versions = version.map(|version| ("==", version.to_owned()));
    Some(Requirement {
        installer: Installer::Go,
        name: path.to_owned(),
        extras: Vec::new(),
        hashes: Vec::new(),
        versions: versions.into_iter().collect(),
    })
}

/// Parts separated by `/`. The first is the name of a host: others are in the standard library.
fn is_path(path: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && !part.ends_with('.')
            && part.chars().all(|c| is_name_char(c) || c == '~')
    };
    let host = path.split('/').next().unwrap_or_default();
    let is_host = host.contains('.')
        && host
            .bytes()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'.' | b'-'));
    is_host && path.split('/').all(is_part)
}

/// `v` and one to three numbers; after three, perhaps a prerelease, and perhaps `+incompatible`.
/// Fewer numbers stand for the newest version that begins with them.
fn is_version(version: &str) -> bool {
    let Some(version) = version.strip_prefix('v') else {
        return false;
    };
    let exact = version.strip_suffix("+incompatible");
    let is_incompatible = exact.is_some();
    let version = exact.unwrap_or(version);
    numbers(version)
        .is_some_and(|(count, has_prerelease)| count == 3 || (!has_prerelease && !is_incompatible))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::read_back;

    fn read(text: &str) -> Option<String> {
        read_back(&format!("go:{text}"))
    }

    #[test]
    fn paths_and_versions_are_parsed() {
        for (text, same) in [
            ("example.org/greet", "go:example.org/greet"),
            (" example.org/greet ", "go:example.org/greet"),
            ("example.org/greet@v1.2.0", "go:example.org/greet@v1.2.0"),
            ("example.org/greet @ v1", "go:example.org/greet@v1"),
            ("gopkg.in/yaml.v3@v3.0", "go:gopkg.in/yaml.v3@v3.0"),
            (
                "github.com/BurntSushi/toml",
                "go:github.com/BurntSushi/toml",
            ),
            (
                "golang.org/x/exp@v0.0.0-20240103183307-be819d1f06fc",
                "go:golang.org/x/exp@v0.0.0-20240103183307-be819d1f06fc",
            ),
            (
                "example.org/a/v2@v2.0.0-rc.1",
                "go:example.org/a/v2@v2.0.0-rc.1",
            ),
            (
                "example.org/a@v4.1.0+incompatible",
                "go:example.org/a@v4.1.0+incompatible",
            ),
        ] {
            assert_eq!(read(text).as_deref(), Some(same), "{text:?}");
        }
    }

    #[test]
    fn what_go_would_read_as_anything_else_is_refused() {
        for text in [
            "",
            "@v1",
            "fmt",
            "net/http",
            "all",
            "std",
            ".",
            "./x.org",
            "../example.org/x",
            "/example.org/x",
            "example.org/...",
            "example.org/x/...",
            "example.org/../x",
            "example.org//x",
            "example.org/x/",
            "example.org/.git",
            "example.org/x.",
            "-x.org/y",
            "example.org/-x",
            "Example.org/x",
            "-modfile=example.org",
            "https://example.org/x",
            "example.org:8080/x",
            "user@example.org/x",
            "example.org/x@",
            "example.org/x@latest",
            "example.org/x@none",
            "example.org/x@main",
            "example.org/x@1.2.0",
            "example.org/x@v",
            "example.org/x@v1.",
            "example.org/x@v1.2.3.4",
            "example.org/x@v1-rc",
            "example.org/x@v1.2.3-",
            "example.org/x@v1.2.3+other",
            "example.org/x@>=v1.2.0",
            "example.org/x@v1@v2",
            "example.org/x==v1",
            "example.org/x@v1;id",
            "example.org/$(id)",
            "example.org/x y",
            "example.org/x\n",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn accepted_text_has_no_pattern_and_no_option(text in "[-a-z./@v0-9 ~_]{0,30}") {
            if let Some(read) = read(&text) {
                let rest = read.strip_prefix("go:").expect("the prefix");
                prop_assert!(!rest.contains("..") && !rest.contains("/-"), "{read:?}");
                prop_assert!(rest.starts_with(|c: char| c.is_ascii_alphanumeric()), "{read:?}");
            }
        }
    }
}
