//! Requirements of Ruby's gem: a name and comparisons with versions.

use super::{Installer, Requirement, comparisons, is_name_char, with_exact};

/// The version operators. `==` is gem's `=`.
const OPERATORS: [&str; 8] = ["==", "!=", "<=", ">=", "~>", "<", ">", "="];

pub(super) fn parse(text: &str) -> Option<Requirement> {
    let end = text.find(|c: char| !is_name_char(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        // A file of this name in the working folder would be installed.
        && !name.to_ascii_lowercase().ends_with(".gem");
    let versions = comparisons(rest.trim_start(), &OPERATORS, is_version)?;
    is_name.then(|| Requirement {
        installer: Installer::Gem,
        name: name.to_owned(),
        extras: Vec::new(),
        hashes: Vec::new(),
        versions: with_exact(versions),
    })
}

/// A number, then numbers and words, as in `3.0.0.rc1`.
fn is_version(version: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_alphanumeric());
    version.starts_with(|c: char| c.is_ascii_digit()) && version.split(['.', '-']).all(is_part)
}

#[cfg(test)]
mod tests {
    use super::super::read_back;

    fn read(text: &str) -> Option<String> {
        read_back(&format!("gem:{text}"))
    }

    #[test]
    fn comparisons_are_parsed() {
        for (text, same) in [
            ("rack", "gem:rack"),
            ("RedCloth", "gem:RedCloth"),
            ("a_b-c.d", "gem:a_b-c.d"),
            ("rack = 3.0", "gem:rack==3.0"),
            ("rack==3.0.8", "gem:rack==3.0.8"),
            ("rack ~> 3.0", "gem:rack~>3.0"),
            ("rack >= 2, < 4, != 3.0.1.rc1", "gem:rack!=3.0.1.rc1,<4,>=2"),
        ] {
            assert_eq!(read(text).as_deref(), Some(same), "{text:?}");
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "",
            "-v",
            "--source=http://example.org",
            ".",
            "../x",
            "/tmp/x.gem",
            "x.gem",
            "X.GEM",
            "a/b",
            "x:1.0",
            "x@1.0",
            "x 1.0",
            "x==",
            "x==1..0",
            "x==v1",
            "x==1;id",
            "x==$(id)",
            "x~=1",
            "x,",
            "http://example.org/x",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
