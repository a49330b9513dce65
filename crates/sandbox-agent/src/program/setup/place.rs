//! Mount points: files and folders of the new root that something is mounted on.

use alloc::{ffi::CString, vec::Vec};

use sandbox_freestanding::{
    Errno, Result, fs,
    fs::{AT_FDCWD, O_CLOEXEC, O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY},
    path::terminated,
    stat::stat_at,
};

use crate::program::make_dirs::make_path;

/// The path of a target. The new root is the root already.
///
/// # Errors
///
/// `EINVAL` unless it is absolute and without `..`.
pub(super) fn path(target: &[u8]) -> Result<CString> {
    let climbs = target.split(|byte| *byte == b'/').any(|part| part == b"..");
    if target.first() != Some(&b'/') || climbs {
        return Err(Errno::EINVAL);
    }
    terminated(target)
}

/// Makes the missing parents of a target.
///
/// # Errors
///
/// What `mkdir` reports.
pub(super) fn parents(target: &[u8]) -> Result<()> {
    match target.iter().rposition(|byte| *byte == b'/') {
        None | Some(0) => Ok(()),
        Some(at) => make_path(&target[..at], 0o755, None),
    }
}

/// Makes sure that there is a folder at `target`, or for `folder` = false a file.
///
/// # Errors
///
/// `ENOTDIR` or `EISDIR` when the other kind is there, and what `mkdir` and `open` report.
pub(super) fn mount_point(target: &[u8], folder: bool) -> Result<CString> {
    let place = path(target)?;
    if folder {
        make_path(target, 0o755, None)?;
        return Ok(place);
    }
    match stat_at(AT_FDCWD, &place, 0) {
        Ok(facts) if facts.is_directory() => Err(Errno::EISDIR),
        Ok(_) => Ok(place),
        Err(Errno::ENOENT) => {
            parents(target)?;
            create(&place, 0o444).map(|_| place)
        }
        Err(errno) => Err(errno),
    }
}

/// A new empty file.
///
/// # Errors
///
/// `EEXIST`, and what `open` reports.
pub(super) fn create(place: &CString, mode: u32) -> Result<sandbox_freestanding::Fd> {
    fs::open(
        place,
        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
        mode,
    )
}

/// A path in the new root that nothing else uses, for what is mounted elsewhere at once.
pub(super) fn scratch(number: usize) -> Vec<u8> {
    alloc::format!("/.sandbox-{number}").into_bytes()
}
