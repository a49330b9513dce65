//! Requirements of npm: a name, perhaps with a scope, and a range of versions.
//!
//! npm would read much more: tags, aliases, URLs, folders, archives, Git repositories. None of them
//! can be written here: a version begins with a digit, has no `:` and `/`, and does not end like
//! the name of an archive, which npm would read from the disk.

use super::{Installer, Requirement, comparisons, is_name_char, numbers};

/// The version operators. `==` is npm's `=`.
const OPERATORS: [&str; 8] = ["==", "^", "~", ">=", "<=", ">", "<", "="];

/// The registry's limit.
const MAX_NAME: usize = 214;

pub(super) fn parse(text: &str) -> Option<Requirement> {
    let is_end = |c: char| !is_name_char(c) && c != '/';
    let skipped = usize::from(text.starts_with('@'));
    let end = text[skipped..].find(is_end).map(|end| end + skipped);
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    if !is_name(name) {
        return None;
    }
    let rest = rest.trim_start();
    let range = rest.strip_prefix('@').map(str::trim);
    let versions = match range {
        Some("") => return None,
        Some(version) if is_version(version) => vec![("==", version.to_owned())],
        Some(range) => comparisons(range, &OPERATORS, is_version)?,
        None => comparisons(rest, &OPERATORS, is_version)?,
    };
    let exact = |(operator, version)| match operator {
        "=" => ("==", version),
        operator => (operator, version),
    };
    Some(Requirement {
        installer: Installer::Npm,
        name: name.to_owned(),
        extras: Vec::new(),
        hashes: Vec::new(),
        versions: versions.into_iter().map(exact).collect(),
    })
}

fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(is_name_char)
    };
    // npm refuses these.
    let is_reserved = ["node_modules", "favicon.ico"]
        .iter()
        .any(|reserved| name.eq_ignore_ascii_case(reserved));
    let is_valid = match name.strip_prefix('@') {
        Some(scoped) => scoped
            .split_once('/')
            .is_some_and(|(scope, name)| is_part(scope) && is_part(name)),
        None => is_part(name),
    };
    is_valid && !is_reserved && name.len() <= MAX_NAME && !is_archive(name)
}

/// One to three numbers, perhaps with a prerelease and a build.
fn is_version(text: &str) -> bool {
    let (version, build) = text.split_once('+').unwrap_or((text, "0"));
    let is_label = |part: &str| {
        !part.is_empty() && part.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
    };
    numbers(version).is_some()
        && build.split('.').all(is_label)
        && ![version, build].iter().any(|part| is_archive(part))
}

/// Whether npm reads this as the name of a file.
fn is_archive(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    [".tgz", ".tar.gz", ".tar"]
        .iter()
        .any(|end| text.ends_with(end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::read_back;

    fn read(text: &str) -> Option<String> {
        read_back(&format!("npm:{text}"))
    }

    #[test]
    fn ranges_of_versions_are_parsed() {
        for (text, same) in [
            ("lodash", "npm:lodash"),
            (" lodash ", "npm:lodash"),
            ("JSONStream", "npm:JSONStream"),
            ("lodash@4.17.21", "npm:lodash@4.17.21"),
            ("lodash==4.17.21", "npm:lodash@4.17.21"),
            ("lodash@=4", "npm:lodash@4"),
            ("lodash@^4.17", "npm:lodash@^4.17"),
            ("lodash @ ~4.17.1", "npm:lodash@~4.17.1"),
            ("semver >= 7, < 8", "npm:semver@<8,>=7"),
            ("@types/node@^20", "npm:@types/node@^20"),
            ("x@1.2.3-rc.1+build.5", "npm:x@1.2.3-rc.1+build.5"),
            ("socket.io", "npm:socket.io"),
        ] {
            assert_eq!(read(text).as_deref(), Some(same), "{text:?}");
        }
    }

    #[test]
    fn what_npm_would_read_as_anything_else_is_refused() {
        for text in [
            "",
            "@",
            "@scope",
            "@scope/",
            "@/name",
            "@a/b/c",
            "user/repository",
            ".",
            "..",
            "./folder",
            "../folder",
            "/tmp/x",
            "~/x",
            "a/../b",
            "@a/..",
            "@../a",
            "x.tgz",
            "@a/x.tar.gz",
            "node_modules",
            "--registry=http://example.org",
            "-g",
            "x@",
            "x@latest",
            "x@next",
            "x@file:../x",
            "x@./x",
            "x@npm:other@1",
            "x@git+https://example.org/x.git",
            "x@github:a/b",
            "x@a/b",
            "x@https://example.org/x.tgz",
            "x@1.0.0-x.tgz",
            "x@1.0.0+x.tar",
            "x@1.0.0-x.TGZ",
            "x@>=1.0.0-x.tgz",
            "x@1.2.3.4",
            "x@1..2",
            "x@v1",
            "x@*",
            "x@1 || 2",
            "x@1 2",
            "x;id",
            "x@1;id",
            "x@$(id)",
            "x y",
            "x\n@1",
            "x@1@2",
            "x^",
            "x,",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
        assert_eq!(read(&"a".repeat(215)), None);
    }

    proptest! {
        #[test]
        fn accepted_text_has_no_path_and_no_address(text in "\\PC{0,40}") {
            if let Some(read) = read(&text) {
                let rest = read.strip_prefix("npm:").expect("the prefix");
                let name = rest.strip_prefix('@').and_then(|scoped| scoped.split_once('/'));
                let name = name.map_or(rest, |(_, name)| name);
                prop_assert!(!name.contains(|c: char| c.is_whitespace() || "/:;'\"$`\\|&(){}".contains(c)), "{read:?}");
                prop_assert!(name.starts_with(|c: char| c.is_ascii_alphanumeric()), "{read:?}");
            }
        }
    }
}
