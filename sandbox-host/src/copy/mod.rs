//! Copies files and folders into and out of a sandbox. The agent handles the sandbox's side as the
//! sandboxed user.

mod inward;
mod outward;
mod workspace;

use sandbox_core::{Copied, Error, ErrorKind, SkipReason, SkippedArtifact};

pub(crate) use inward::copy_in;
pub(crate) use outward::copy_out;
pub(crate) use workspace::WorkspaceCopy;

/// The permission bits that a copy keeps. Set-ID and sticky bits have a different meaning on the
/// other side.
const MODE: u32 = 0o777;

/// The mode of a folder while it is filled.
const FOLDER: u32 = 0o700;

fn skip(copied: &mut Copied, source: &[u8], reason: SkipReason) {
    copied.skipped.push(SkippedArtifact {
        source: String::from_utf8_lossy(source).into_owned(),
        reason,
    });
}

/// An error for a path of the host.
fn on_host(operation: &'static str, path: &[u8], cause: &std::io::Error) -> Error {
    let path = String::from_utf8_lossy(path);
    Error::new(ErrorKind::Io, operation, format!("{path}: {cause}"))
}

/// An error for a source that cannot be copied at all.
fn refused(operation: &'static str, path: &[u8], why: &str) -> Error {
    let path = String::from_utf8_lossy(path);
    Error::new(ErrorKind::Path, operation, format!("{path}: {why}"))
}

const LINK: &str = "a symbolic link; links are not followed";
const SPECIAL: &str = "neither a regular file nor a folder";

/// Splits a source path into the path to copy and its name in the target folder; `None` for a path
/// that ends in `/.`, whose contents are copied.
fn split_source(source: &[u8]) -> (&[u8], Option<&[u8]>) {
    let trimmed = trim_slashes(source);
    if let Some(folder) = trimmed.strip_suffix(b"/.") {
        let folder = trim_slashes(folder);
        return (if folder.is_empty() { b"/" } else { folder }, None);
    }
    let start = trimmed
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |slash| slash + 1);
    match &trimmed[start..] {
        b"" => (b"/", None),
        b"." | b".." => (trimmed, None),
        name => (trimmed, Some(name)),
    }
}

fn trim_slashes(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/');
    &path[..end.map_or(0, |last| last + 1)]
}

fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = trim_slashes(folder).to_vec();
    if !name.is_empty() {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    if path.is_empty() { b"/".to_vec() } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_name_what_arrives() {
        let split = |source: &'static str| {
            let (path, name) = split_source(source.as_bytes());
            let text = |bytes| std::str::from_utf8(bytes).unwrap();
            (text(path), name.map(text))
        };
        assert_eq!(split("a/b"), ("a/b", Some("b")));
        assert_eq!(split("/a/b//"), ("/a/b", Some("b")));
        assert_eq!(split("a/b/."), ("a/b", None));
        assert_eq!(split("a//."), ("a", None));
        assert_eq!(split("/"), ("/", None));
        assert_eq!(split("/."), ("/", None));
        assert_eq!(split("."), (".", None));
        assert_eq!(split("a/.."), ("a/..", None));
        assert_eq!(split("größe"), ("größe", Some("größe")));
    }

    #[test]
    fn paths_are_joined() {
        assert_eq!(join(b"/", b"a"), b"/a");
        assert_eq!(join(b"/x/", b"a"), b"/x/a");
        assert_eq!(join(b"/x", b""), b"/x");
        assert_eq!(join(b"/", b""), b"/");
    }
}
