//! Patterns of image references, which say which images may be used.

use std::fmt;
use std::str::FromStr;

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};

use super::ImageReference;
use super::reference::{Parts, complete, is_digest, tag_or_default};
use crate::{Error, ErrorKind, Result};

/// The maximum length of a pattern in bytes.
const MAX_LENGTH: usize = 512;

/// A tag that matches every tag.
const ANY: &str = "*";

/// A pattern of image references, as in a policy's `images`.
///
/// A pattern is completed like a reference: `python:3.*` is `docker.io/library/python:3.*`, and
/// `python` allows only `latest`. `*` and `?` match within a part of the name, and `**` matches
/// several parts. `*/…` and `**/…` match any registry.
///
/// - A digest in the pattern allows only that digest.
/// - A digest in the reference decides which image is used, whatever its tag is. So only a pattern
///   with that digest matches, or one for every tag (`python:*`).
/// - An image id matches only the same id, written in full.
///
/// ```
/// use sandbox_core::ImagePattern;
///
/// let pattern: ImagePattern = "python:3.1?-slim".parse()?;
/// assert!(pattern.matches(&"docker.io/library/python:3.11-slim".parse()?));
/// assert!(!pattern.matches(&"example.org/python:3.11-slim".parse()?));
/// # Ok::<(), sandbox_core::Error>(())
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImagePattern {
    written: String,
    rule: PatternRule,
}

#[derive(Debug, Clone)]
enum PatternRule {
    Id(String),
    Name {
        name: GlobMatcher,
        tag: Option<GlobMatcher>,
        any_tag: bool,
        digest: Option<String>,
    },
}

impl ImagePattern {
    /// Whether the pattern allows the image with this reference.
    #[must_use]
    pub fn matches(&self, reference: &ImageReference) -> bool {
        match (&self.rule, reference.name()) {
            (PatternRule::Id(id), None) => reference.id() == Some(id),
            (
                PatternRule::Name {
                    name,
                    tag,
                    any_tag,
                    digest,
                },
                Some(named),
            ) => {
                let content = match (digest, reference.digest()) {
                    (Some(allowed), asked) => asked == Some(allowed),
                    (None, Some(_)) => *any_tag,
                    (None, None) => match (tag, reference.tag()) {
                        (Some(tag), Some(asked)) => tag.is_match(asked),
                        _ => false,
                    },
                };
                content && name.is_match(named)
            }
            _ => false,
        }
    }
}

impl PartialEq for ImagePattern {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for ImagePattern {}

impl fmt::Display for ImagePattern {
    /// The pattern as it was written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl From<ImagePattern> for String {
    fn from(pattern: ImagePattern) -> Self {
        pattern.written
    }
}

impl TryFrom<String> for ImagePattern {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl FromStr for ImagePattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let rule = parse(text).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidPolicy,
                "read image pattern",
                format!("{text:?} is not a pattern of images"),
            )
            .with_fix("write it like python:3.*, registry.example.org/team/**:* or image@sha256:…")
        })?;
        Ok(Self {
            written: text.to_owned(),
            rule,
        })
    }
}

fn parse(text: &str) -> Option<PatternRule> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-/:@*?".contains(c);
    if text.is_empty() || text.len() > MAX_LENGTH || !text.chars().all(good) {
        return None;
    }
    if let Ok(reference) = text.parse::<ImageReference>()
        && let Some(id) = reference.id()
    {
        return (id.len() == 64).then(|| PatternRule::Id(id.to_owned()));
    }
    let Parts { name, tag, digest } = Parts::of(text);
    let empty = |part: Option<&str>| part == Some("");
    if name.is_empty() || empty(tag) || digest.is_some_and(|digest| !is_digest(digest)) {
        return None;
    }
    let tag = tag_or_default(tag, digest);
    let glob = |pattern: &str| {
        let mut builder = GlobBuilder::new(pattern);
        let glob = builder.literal_separator(true).build();
        glob.ok().map(|glob| glob.compile_matcher())
    };
    Some(PatternRule::Name {
        name: glob(&complete(name))?,
        any_tag: tag == Some(ANY),
        tag: match tag {
            Some(tag) => Some(glob(tag)?),
            None => None,
        },
        digest: digest.map(ToOwned::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const OTHER: &str = "sha256:1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn allows(pattern: &str, reference: &str) -> bool {
        let pattern: ImagePattern = pattern.parse().expect(pattern);
        pattern.matches(&reference.parse().expect(reference))
    }

    #[test]
    fn patterns_match_completed_names() {
        assert!(allows("python", "python"));
        assert!(allows("python", "docker.io/library/python:latest"));
        assert!(!allows("python", "python:3.11"), "latest alone");
        assert!(allows("python:3.*", "python:3.11-slim"));
        assert!(!allows("python:3.*", "python:2.7"));
        assert!(!allows("python:*", "team/python:1"));
        assert!(!allows("python:*", "example.org/python:1"));
        assert!(allows("team/*:*", "team/x:1"));
        assert!(!allows("team/*:*", "team/x/y:1"));
        assert!(allows("example.org/team/**:*", "example.org/team/x/y:1"));
        assert!(!allows("example.org/team/**:*", "example.org/teams/x:1"));
        assert!(!allows("example.org/**:*", "example.org.evil.net/x:1"));
        assert!(allows("**/base:*", "example.org/a/base:1"));
        assert!(!allows("*:*", "team/x:1"));
    }

    #[test]
    fn digest_decides_whatever_the_tag_is() {
        let pinned = |digest: &str| format!("python:3.11@{digest}");
        assert!(!allows("python:3.11", &pinned(OTHER)));
        assert!(allows("python:*", &pinned(OTHER)));
        let pattern = format!("python@{DIGEST}");
        assert!(allows(&pattern, &pinned(DIGEST)));
        assert!(allows(&pattern, &format!("python@{DIGEST}")));
        assert!(!allows(&pattern, &pinned(OTHER)));
        assert!(!allows(&pattern, "python:3.11"));
    }

    #[test]
    fn image_id_matches_only_itself() {
        assert!(allows(DIGEST, DIGEST));
        assert!(!allows(DIGEST, OTHER));
        assert!(!allows("**:*", DIGEST));
        assert!(
            !allows(DIGEST, &DIGEST[7..27]),
            "the first digits may be another's"
        );
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for bad in [
            "",
            "a b",
            "x@",
            "x@sha256:12",
            "x:",
            "{a,b}",
            "[ab]",
            ":1",
            "0123456789ab",
            "ä",
        ] {
            assert!(bad.parse::<ImagePattern>().is_err(), "{bad:?}");
        }
    }
}
