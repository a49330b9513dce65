//! Writing a file into the sandbox.

use alloc::{ffi::CString, format, vec};

use crate::runtime::{
    Errno, Fd, RawFd, fs,
    fs::{O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_PATH, O_WRONLY},
    io,
    path::terminated,
    process,
    time::monotonic_microseconds,
};

use super::{BuiltinError, file_error};
use crate::program::make_dirs::make_path;

/// Size of one write, in bytes.
const CHUNK_BYTES: usize = 256 * 1024;

/// Writes standard input to a file that replaces `path` atomically.
pub(super) fn put(path: &[u8], mode: u32, complete: Option<RawFd>) -> Result<(), BuiltinError> {
    let (parent, name) = split(path).ok_or_else(|| file_error(path)(Errno::EISDIR))?;
    let name = terminated(name).map_err(file_error(path))?;
    if !parent.is_empty() {
        make_path(parent, 0o755, None).map_err(file_error(parent))?;
    }
    let parent_path = if parent.is_empty() { b"." } else { parent };
    let folder = terminated(parent_path)
        .and_then(|parent| fs::open(&parent, O_PATH | O_DIRECTORY | O_CLOEXEC, 0))
        .map_err(file_error(parent))?;
    let (file, temporary) = create(&folder).map_err(file_error(path))?;
    let written = fill(&file, path, complete)
        .and_then(|()| fs::change_mode_of(&file, mode & 0o7777).map_err(file_error(path)))
        // `close` reports deferred errors of writes.
        .and_then(|()| file.close().map_err(file_error(path)))
        .and_then(|()| {
            fs::rename(&folder, &temporary, &folder, &name, 0).map_err(file_error(path))
        });
    if written.is_err() {
        // An error means that code of the sandbox has removed it.
        let _ = fs::unlink(&folder, &temporary, 0);
    }
    written
}

fn fill(file: &Fd, path: &[u8], complete: Option<RawFd>) -> Result<(), BuiltinError> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = io::read(0, &mut chunk).map_err(file_error(b"standard input"))?;
        if count == 0 {
            break;
        }
        io::write_all(file, &chunk[..count]).map_err(file_error(path))?;
    }
    // A closed pipe alone may mean that the agent is gone.
    match complete.map(|complete| io::read(complete, &mut [0; 1])) {
        Some(Ok(1)) => Ok(()),
        _ => Err(BuiltinError::Abandoned),
    }
}

/// Creates a file with an unused name.
fn create(folder: &Fd) -> Result<(Fd, CString), Errno> {
    loop {
        let name = format!(
            ".sandbox-put-{}-{:x}",
            process::current().0,
            monotonic_microseconds()
        );
        let name = terminated(name)?;
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
        match fs::open_at(folder, &name, flags, 0o600) {
            // The next attempt has another time in its name.
            Err(Errno::EEXIST) => {}
            other => return other.map(|file| (file, name)),
        }
    }
}

/// The parent and the name; `None` if the path names no file.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) => (&path[..1], &path[1..]),
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&path[..0], path),
    };
    (!matches!(name, b"" | b"." | b"..")).then_some((parent, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_splits_into_parent_and_name() {
        assert_eq!(split(b"/a/b"), Some((&b"/a"[..], &b"b"[..])));
        assert_eq!(split(b"/b"), Some((&b"/"[..], &b"b"[..])));
        assert_eq!(split(b"b"), Some((&b""[..], &b"b"[..])));
        for path in [&b""[..], b"/", b"/a/", b"/a/.", b"/a/.."] {
            assert_eq!(split(path), None);
        }
    }
}
