//! Reads files below a folder that is opened once, without following links.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use sandbox_host::safe_path::LinkRule;

/// Opens the folder that the caller names. Code of an earlier run may have created links in its
/// path: see [`LinkRule`].
///
/// # Errors
///
/// Not a folder, or a link out of its folder unless `follow` is set.
pub(super) fn root(path: &Path, follow: bool) -> Result<OwnedFd, String> {
    let failed = |why: io::Error| format!("{}: {why}", path.display());
    let opened = LinkRule::new(follow).open(path).map_err(|error| {
        let fix = error.fix().map(|fix| format!("; {fix}"));
        format!("{}: {error}{}", path.display(), fix.unwrap_or_default())
    })?;
    if opened.kind() != FileType::Directory {
        return Err(failed(Errno::NOTDIR.into()));
    }
    opened.open_for_reading().map_err(failed)
}

/// Opens a folder in a folder.
///
/// # Errors
///
/// Not a folder, or a link.
pub(super) fn folder(parent: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    opened(parent, name, flags)
}

/// Opens a file in a folder.
///
/// # Errors
///
/// Not readable, not a regular file, or a link.
pub(super) fn file(parent: impl AsFd, name: &OsStr) -> io::Result<File> {
    // Opening a named pipe must not block.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(opened(parent, name, flags)?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "is no file")),
    }
}

/// Reads a text file below a folder.
///
/// # Errors
///
/// As [`file`], also for a link in the path, and for more than `largest` bytes.
pub(super) fn text(root: &OwnedFd, path: &Path, largest: u64) -> io::Result<String> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is no file"));
    };
    let mut here = root.try_clone()?;
    for part in parent.components() {
        let Component::Normal(part) = part else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "leaves the context",
            ));
        };
        here = folder(&here, part)?;
    }
    let mut text = String::new();
    let read = file(&here, name)?
        .take(largest + 1)
        .read_to_string(&mut text)?;
    match u64::try_from(read).is_ok_and(|read| read <= largest) {
        true => Ok(text),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("has more than {largest} bytes"),
        )),
    }
}

fn opened(parent: impl AsFd, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let failed = match openat(&parent, name, flags, Mode::empty()) {
        Ok(opened) => return Ok(opened),
        Err(errno) => io::Error::from(errno),
    };
    let stat = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW);
    match stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink()) {
        true => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{name:?} is a link; name what it leads to"),
        )),
        false => Err(failed),
    }
}
