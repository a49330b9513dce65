//! Mount points: files and folders of the new root that something is mounted on.

use alloc::{ffi::CString, vec::Vec};

use crate::runtime::{
    Errno, Fd, Result, fs,
    fs::{
        AT_FDCWD, O_CLOEXEC, O_CREAT, O_EXCL, O_NOFOLLOW, O_PATH, O_WRONLY, OpenHow,
        RESOLVE_NO_SYMLINKS,
    },
    path::terminated,
    stat::{S_IFLNK, Stat, stat_of},
};

use crate::program::make_dirs::make_path;

/// Something of the new root that is mounted on, held open. Code of another sandbox may exchange names in a folder that both
/// can write to, so a mount goes onto the object and not onto its name.
#[derive(Debug)]
pub(super) struct MountPoint {
    pub(super) path: CString,
    pub(super) object: Fd,
    pub(super) metadata: Stat,
}

/// Opens what is at a target. No part of it may be a link.
///
/// # Errors
///
/// `ELOOP` for a link, `EINVAL` as [`path`], and what `open` reports.
pub(super) fn existing(target: &[u8]) -> Result<MountPoint> {
    let path = path(target)?;
    let how = OpenHow {
        flags: (O_PATH | O_CLOEXEC) as u64,
        resolve: RESOLVE_NO_SYMLINKS,
        ..OpenHow::default()
    };
    let object = match fs::open_at2(AT_FDCWD, &path, &how) {
        // Before Linux 5.6, or denied by an engine's seccomp profile that does not know the call.
        Err(Errno::ENOSYS | Errno::EPERM) => open_by_component(target)?,
        opened => opened?,
    };
    let metadata = stat_of(&object)?;
    Ok(MountPoint {
        path,
        object,
        metadata,
    })
}

fn open_by_component(target: &[u8]) -> Result<Fd> {
    let flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
    let mut object = fs::open(c"/", flags, 0)?;
    for part in target.split(|byte| *byte == b'/') {
        if part.is_empty() || part == b"." {
            continue;
        }
        object = fs::open_at(&object, &terminated(part)?, flags, 0)?;
        if stat_of(&object)?.kind() == S_IFLNK {
            return Err(Errno::ELOOP);
        }
    }
    Ok(object)
}

/// The path of a target. The new root is the root already.
///
/// # Errors
///
/// `EINVAL` unless it is absolute and without `..`.
pub(super) fn path(target: &[u8]) -> Result<CString> {
    let has_parent_component = target.split(|byte| *byte == b'/').any(|part| part == b"..");
    if target.first() != Some(&b'/') || has_parent_component {
        return Err(Errno::EINVAL);
    }
    terminated(target)
}

/// Makes the missing parents of a target.
///
/// # Errors
///
/// What `mkdir` reports.
pub(super) fn make_parents(target: &[u8]) -> Result<()> {
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
pub(super) fn create_if_missing(target: &[u8], folder: bool) -> Result<MountPoint> {
    match existing(target) {
        Err(Errno::ENOENT) if folder => make_path(target, 0o755, None)?,
        Err(Errno::ENOENT) => {
            make_parents(target)?;
            create(&path(target)?, 0o444)?.close()?;
        }
        Ok(point) if folder && !point.metadata.is_directory() => return Err(Errno::ENOTDIR),
        Ok(point) if !folder && point.metadata.is_directory() => return Err(Errno::EISDIR),
        other => return other,
    }
    existing(target)
}

/// A new empty file.
///
/// # Errors
///
/// `EEXIST`, and what `open` reports.
pub(super) fn create(point: &CString, mode: u32) -> Result<crate::runtime::Fd> {
    fs::open(
        point,
        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
        mode,
    )
}

/// A path in the new root that nothing else uses, for what is mounted elsewhere at once.
pub(super) fn scratch(number: usize) -> Vec<u8> {
    alloc::format!("/.sandbox-{number}").into_bytes()
}
