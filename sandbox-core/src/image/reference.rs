//! Image names, completed as engines complete them.

use std::fmt;
use std::str::FromStr;

use crate::{Error, ErrorKind, Result};

/// The default registry.
const REGISTRY: &str = "docker.io";

/// Another spelling of [`REGISTRY`].
const LEGACY_REGISTRY: &str = "index.docker.io";

/// The default namespace of that registry.
const LIBRARY: &str = "library";

/// The default tag.
const TAG: &str = "latest";

/// The maximum length of a name without tag and digest, in bytes, as in registries.
const MAX_NAME_LENGTH: usize = 255;

/// The maximum length of a tag in bytes.
const MAX_TAG_LENGTH: usize = 128;

/// The minimum number of digits of an id: as many as engines print.
const MIN_ID_DIGITS: usize = 12;

/// The name of an image with its registry and tag, or the id of an image.
///
/// `python` is `docker.io/library/python:latest` on every engine, whatever registries the engine
/// searches. `sha256:` with 64 hexadecimal digits is an id, and so are 12 to 64 digits alone, as
/// engines print them.
///
/// ```
/// use sandbox_core::ImageReference;
///
/// let reference: ImageReference = "python:3.11-slim".parse()?;
/// assert_eq!(reference.to_string(), "docker.io/library/python:3.11-slim");
/// assert_eq!(reference.digest(), None);
/// # Ok::<(), sandbox_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ImageReference(ReferenceKind);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ReferenceKind {
    Name {
        /// Registry and repository.
        name: String,
        tag: Option<String>,
        digest: Option<String>,
    },
    /// The digits of an id, or its first digits.
    Id(String),
}

impl ImageReference {
    /// Registry and repository (`docker.io/library/python`); `None` for an id.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            ReferenceKind::Name { name, .. } => Some(name),
            ReferenceKind::Id(_) => None,
        }
    }

    /// The tag. It is `latest` if neither tag nor digest was written.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        match &self.0 {
            ReferenceKind::Name { tag, .. } => tag.as_deref(),
            ReferenceKind::Id(_) => None,
        }
    }

    /// The digest that pins the image (`sha256:…`), whatever its tag is.
    #[must_use]
    pub fn digest(&self) -> Option<&str> {
        match &self.0 {
            ReferenceKind::Name { digest, .. } => digest.as_deref(),
            ReferenceKind::Id(_) => None,
        }
    }

    /// The hexadecimal digits of an id, or its first digits; `None` for a name.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        match &self.0 {
            ReferenceKind::Name { .. } => None,
            ReferenceKind::Id(digits) => Some(digits),
        }
    }
}

impl fmt::Display for ImageReference {
    /// The complete form, which every engine reads in the same way.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ReferenceKind::Id(digits) if digits.len() == 64 => write!(f, "sha256:{digits}"),
            ReferenceKind::Id(digits) => f.write_str(digits),
            ReferenceKind::Name { name, tag, digest } => {
                f.write_str(name)?;
                if let Some(tag) = tag {
                    write!(f, ":{tag}")?;
                }
                match digest {
                    Some(digest) => write!(f, "@{digest}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl FromStr for ImageReference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).map(Self).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidSpec,
                "read image reference",
                format!("{text:?} is not a reference of an image"),
            )
            .with_fix("write it like python:3.11-slim or registry.example.org/team/image@sha256:…")
        })
    }
}

fn parse(text: &str) -> Option<ReferenceKind> {
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    let enough = if digits.len() == text.len() {
        MIN_ID_DIGITS
    } else {
        64
    };
    if (enough..=64).contains(&digits.len()) && is_hexadecimal(digits) {
        return Some(ReferenceKind::Id(digits.to_owned()));
    }
    let Parts { name, tag, digest } = Parts::of(text);
    let name = complete(name);
    let good = name.len() <= MAX_NAME_LENGTH
        && is_name(&name)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest);
    good.then(|| ReferenceKind::Name {
        name,
        tag: match (tag, digest) {
            (None, None) => Some(TAG.to_owned()),
            (tag, _) => tag.map(ToOwned::to_owned),
        },
        digest: digest.map(ToOwned::to_owned),
    })
}

/// The parts of a reference or a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    pub(super) name: &'a str,
    pub(super) tag: Option<&'a str>,
    pub(super) digest: Option<&'a str>,
}

impl<'a> Parts<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        let behind_folders = rest.rfind('/').map_or(0, |slash| slash + 1);
        let (name, tag) = match rest[behind_folders..].find(':') {
            Some(colon) => {
                let colon = behind_folders + colon;
                (&rest[..colon], Some(&rest[colon + 1..]))
            }
            None => (rest, None),
        };
        Self { name, tag, digest }
    }
}

/// Adds the default registry and its namespace to a name without them.
pub(super) fn complete(name: &str) -> String {
    match name.split_once('/') {
        Some((registry, rest)) if is_registry(registry) => {
            let registry = match registry {
                LEGACY_REGISTRY => REGISTRY,
                other => other,
            };
            if registry == REGISTRY && !rest.contains('/') {
                format!("{REGISTRY}/{LIBRARY}/{rest}")
            } else {
                format!("{registry}/{rest}")
            }
        }
        Some(_) => format!("{REGISTRY}/{name}"),
        None => format!("{REGISTRY}/{LIBRARY}/{name}"),
    }
}

/// Whether the part before the first slash is a registry and not a folder.
fn is_registry(part: &str) -> bool {
    part == "localhost" || part.contains(['.', ':']) || matches!(part, "*" | "**")
}

pub(super) fn tag_or_default<'a>(tag: Option<&'a str>, digest: Option<&str>) -> Option<&'a str> {
    tag.or(digest.is_none().then_some(TAG))
}

/// Whether a complete name is valid: a registry with or without a port, then folders of lowercase
/// letters, digits and single separators.
fn is_name(name: &str) -> bool {
    let Some((registry, path)) = name.split_once('/') else {
        return false;
    };
    let (host, port) = registry.split_once(':').unwrap_or((registry, "0"));
    let good_host = host.split('.').all(|label| {
        let inner = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
        !label.is_empty()
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    });
    let good_port = !port.is_empty() && port.len() <= 5 && port.bytes().all(|c| c.is_ascii_digit());
    good_host && good_port && path.split('/').all(is_folder)
}

fn is_folder(folder: &str) -> bool {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = folder.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter().all(|end| end.is_some_and(|c| plain(*c)))
        && bytes.iter().all(|c| plain(*c) || b"._-".contains(c))
        && !["..", "._", "_.", ".-", "-.", "_-", "-_", "___"]
            .iter()
            .any(|separators| folder.contains(separators))
}

fn is_tag(tag: &str) -> bool {
    let word = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    tag.len() <= MAX_TAG_LENGTH
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|c| word(c) || b".-".contains(&c))
}

pub(super) fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, digits)| {
        let length = match algorithm {
            "sha256" => 64,
            "sha384" => 96,
            "sha512" => 128,
            _ => return false,
        };
        digits.len() == length && is_hexadecimal(digits)
    })
}

fn is_hexadecimal(digits: &str) -> bool {
    digits
        .bytes()
        .all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn read(text: &str) -> ImageReference {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn short_names_are_completed() {
        for (written, complete) in [
            ("python", "docker.io/library/python:latest"),
            ("python:3.11-slim", "docker.io/library/python:3.11-slim"),
            ("docker.io/python", "docker.io/library/python:latest"),
            ("index.docker.io/team/x:1", "docker.io/team/x:1"),
            ("team/image", "docker.io/team/image:latest"),
            ("localhost/x", "localhost/x:latest"),
            ("localhost:5000/x", "localhost:5000/x:latest"),
            ("127.0.0.1:5000/a/b:v1", "127.0.0.1:5000/a/b:v1"),
            ("Example.org/a__b/c-d", "Example.org/a__b/c-d:latest"),
            ("cafe", "docker.io/library/cafe:latest"),
        ] {
            assert_eq!(read(written).to_string(), complete, "{written}");
            assert_eq!(read(complete), read(written), "{written}");
        }
    }

    #[test]
    fn digest_is_valid_with_and_without_a_tag() {
        let pinned = read(&format!("python@sha256:{DIGITS}"));
        assert_eq!(pinned.digest(), Some(format!("sha256:{DIGITS}").as_str()));
        assert_eq!(pinned.tag(), None);
        let both = read(&format!("python:3@sha256:{DIGITS}"));
        assert_eq!(
            both.to_string(),
            format!("docker.io/library/python:3@sha256:{DIGITS}")
        );
    }

    #[test]
    fn image_ids_are_not_names() {
        for (id, digits) in [
            (format!("sha256:{DIGITS}"), DIGITS),
            (DIGITS.to_owned(), DIGITS),
            ("f26e70cd6b10".to_owned(), "f26e70cd6b10"),
        ] {
            let reference = read(&id);
            assert_eq!(reference.id(), Some(digits));
            assert_eq!(reference.name(), None);
            assert_eq!(read(&reference.to_string()), reference);
        }
    }

    #[test]
    fn references_that_could_change_a_request_are_refused() {
        let long = "a".repeat(300);
        let half = format!("x@sha256:{}", &DIGITS[1..]);
        for bad in [
            "",
            "a?b",
            "a#b",
            "../x",
            "a/../b",
            "/a",
            "a//b",
            "a/",
            "a b",
            "a%2e",
            "-a",
            "ä",
            "A",
            "a:",
            "a:-x",
            "a@",
            "a@sha256",
            "a@md5:0123",
            "host:/a",
            "host:x/a",
            ".a/b",
            "a./b",
            "a..b",
            "a:b:c",
            "a\0",
            "a\n",
            &long,
            &half,
            "*",
            "python:*",
        ] {
            assert!(bad.parse::<ImageReference>().is_err(), "{bad:?}");
        }
    }
}
