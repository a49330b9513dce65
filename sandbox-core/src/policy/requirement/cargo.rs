//! Requirements of cargo: a name, perhaps with features and comparisons of versions.

use super::{Installer, Requirement, comparisons, numbers, with_exact};

/// The version operators. `==` is cargo's `=`.
const OPERATORS: [&str; 8] = ["==", "^", "~", ">=", "<=", ">", "<", "="];

/// The registry's limit.
const MAX_NAME: usize = 64;

pub(super) fn parse(text: &str) -> Option<Requirement> {
    let is_end = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let (name, rest) = text.split_at(text.find(is_end).unwrap_or(text.len()));
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || name.len() > MAX_NAME {
        return None;
    }
    let mut rest = rest.trim_start();
    let mut features = Vec::new();
    if let Some(inner) = rest.strip_prefix('[') {
        let (inside, after) = inner.split_once(']')?;
        features = inside.split(',').map(|one| one.trim().to_owned()).collect();
        if !features.iter().all(|feature| is_feature(feature)) {
            return None;
        }
        features.sort();
        features.dedup();
        rest = after.trim_start();
    }
    let range = rest.strip_prefix('@').map(str::trim);
    let versions = match range {
        Some("") => return None,
        // As cargo reads it.
        Some(version) if is_version(version) => vec![("^", version.to_owned())],
        Some(range) => comparisons(range, &OPERATORS, is_version)?,
        None => comparisons(rest, &OPERATORS, is_version)?,
    };
    Some(Requirement {
        installer: Installer::Cargo,
        name: name.to_owned(),
        extras: features,
        hashes: Vec::new(),
        versions: with_exact(versions),
    })
}

/// A feature of the package itself, not of one that it depends on.
fn is_feature(feature: &str) -> bool {
    let is_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '.');
    feature.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && feature.chars().all(is_char)
}

/// One to three numbers; after three, perhaps a prerelease.
fn is_version(version: &str) -> bool {
    numbers(version).is_some_and(|(count, has_prerelease)| count == 3 || !has_prerelease)
}

#[cfg(test)]
mod tests {
    use super::super::read_back;

    fn read(text: &str) -> Option<String> {
        read_back(&format!("cargo:{text}"))
    }

    #[test]
    fn features_and_versions_are_parsed() {
        for (text, same) in [
            ("itoa", "cargo:itoa"),
            ("itoa@1", "cargo:itoa@^1"),
            ("itoa@=1.0.9", "cargo:itoa@=1.0.9"),
            ("itoa == 1.0.9", "cargo:itoa@=1.0.9"),
            ("serde[derive]", "cargo:serde[derive]"),
            ("serde [rc, derive] @ 1.0", "cargo:serde[derive,rc]@^1.0"),
            ("rand >= 0.8, < 0.10", "cargo:rand@<0.10,>=0.8"),
            ("a_b-c@1.0.0-rc.1", "cargo:a_b-c@^1.0.0-rc.1"),
        ] {
            assert_eq!(read(text).as_deref(), Some(same), "{text:?}");
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "",
            "@1",
            "1x",
            "-x",
            "--git=https://example.org/x",
            "a.b",
            "a/b",
            "../a",
            "a b",
            "a[]",
            "a[b",
            "a[b/c]",
            "a[-b]",
            "a[\"b\"]",
            "a@",
            "a@*",
            "a@1.*",
            "a@v1",
            "a@1.2.3.4",
            "a@1-rc",
            "a@latest",
            "a@https://example.org",
            "a@1\"",
            "a@1}",
            "a\n[dependencies]",
            "a,",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
        assert_eq!(read(&"a".repeat(65)), None);
    }
}
