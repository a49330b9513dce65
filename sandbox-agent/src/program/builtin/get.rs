//! Reading a file from the sandbox.

use alloc::vec;

use crate::runtime::{
    Errno, Fd, fs,
    fs::{O_CLOEXEC, O_DIRECTORY, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_PATH, O_RDONLY},
    io,
    path::terminated,
    stat::{S_IFLNK, stat_at, stat_of},
};

use super::{BuiltinError, file_error};

/// Size of one read, in bytes.
const CHUNK_BYTES: usize = 256 * 1024;

/// Writes a regular file to standard output.
pub(super) fn get(path: &[u8]) -> Result<(), BuiltinError> {
    let file = open_without_links(path).map_err(file_error(path))?;
    if !stat_of(&file).map_err(file_error(path))?.is_file() {
        return Err(BuiltinError::File(Errno::EINVAL, super::text(path)));
    }
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = io::read(&file, &mut chunk).map_err(file_error(path))?;
        if count == 0 {
            return Ok(());
        }
        io::write_all(1, &chunk[..count]).map_err(BuiltinError::Output)?;
    }
}

/// Opens a file for reading, folder by folder, so that no component is a link. `openat2` would do
/// the same, but older seccomp profiles of engines deny it. Never blocks.
fn open_without_links(path: &[u8]) -> Result<Fd, Errno> {
    // A relative path starts in the working folder.
    let start = if path.first() == Some(&b'/') {
        c"/"
    } else {
        c"."
    };
    let mut folder = fs::open(start, O_PATH | O_DIRECTORY | O_CLOEXEC, 0)?;
    let mut parts = path
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty())
        .peekable();
    while let Some(part) = parts.next() {
        let name = terminated(part)?;
        if parts.peek().is_none() {
            // O_NONBLOCK for FIFOs; a link fails to open.
            let flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
            return match fs::open_at(&folder, &name, flags, 0) {
                // A socket, or a device without a driver.
                Err(Errno::ENXIO | Errno::ENODEV) => Err(Errno::EINVAL),
                other => other,
            };
        }
        let flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        folder = match fs::open_at(&folder, &name, flags, 0) {
            Err(Errno::ENOTDIR) if is_link(&folder, &name) => Err(Errno::ELOOP),
            other => other,
        }?;
    }
    // The start itself, or an empty path.
    Err(Errno::EINVAL)
}

fn is_link(folder: &Fd, name: &core::ffi::CStr) -> bool {
    stat_at(folder, name, fs::AT_SYMLINK_NOFOLLOW).is_ok_and(|metadata| metadata.kind() == S_IFLNK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::{ffi::OsStrExt, fs::symlink};

    #[test]
    fn only_files_are_opened() {
        let temp_dir = tempfile::tempdir().unwrap();
        let temp_dir = temp_dir.path().canonicalize().unwrap();
        std::fs::create_dir(temp_dir.join("folder")).unwrap();
        std::fs::write(temp_dir.join("folder/file"), "content").unwrap();
        symlink("folder", temp_dir.join("link")).unwrap();
        symlink("file", temp_dir.join("folder/link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(temp_dir.join("socket")).unwrap();
        let open = |path: &str| open_without_links(temp_dir.join(path).as_os_str().as_bytes());
        let mut bytes = [0; 20];
        for path in ["folder//./file", "folder/../folder/file"] {
            let file = open(path).unwrap();
            assert_eq!(io::read(&file, &mut bytes), Ok(7));
        }
        assert_eq!(open("link/file").unwrap_err(), Errno::ELOOP);
        assert_eq!(open("folder/link").unwrap_err(), Errno::ELOOP);
        assert_eq!(open("folder/file/x").unwrap_err(), Errno::ENOTDIR);
        assert_eq!(open("folder/none").unwrap_err(), Errno::ENOENT);
        assert_eq!(open("socket").unwrap_err(), Errno::EINVAL);
        assert_eq!(open_without_links(b"/").unwrap_err(), Errno::EINVAL);
        assert_eq!(open_without_links(b"").unwrap_err(), Errno::EINVAL);
    }
}
