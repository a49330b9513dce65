//! Mount points: files and folders of the new root.

use alloc::{ffi::CString, vec::Vec};

use crate::runtime::{
    Errno, Fd, fs,
    fs::{
        AT_FDCWD, O_CLOEXEC, O_CREAT, O_EXCL, O_NOFOLLOW, O_PATH, O_WRONLY, OpenHow,
        RESOLVE_NO_SYMLINKS,
    },
    path::terminated,
    stat::{S_IFLNK, Stat, stat_of},
};

use crate::program::make_dirs::make_path;

/// An open mount point. Code of another sandbox may rename entries of a folder that both can write
/// to. So a mount goes onto the open object, not onto its name.
#[derive(Debug)]
pub(super) struct MountPoint {
    pub(super) path: CString,
    pub(super) object: Fd,
    pub(super) metadata: Stat,
}

/// Opens an existing target. No component may be a link.
///
/// # Errors
///
/// `ELOOP` for a link, `EINVAL` as [`path`], and what `open` reports.
pub(super) fn existing(target: &[u8]) -> Result<MountPoint, Errno> {
    let path = path(target)?;
    let how = OpenHow {
        flags: (O_PATH | O_CLOEXEC) as u64,
        resolve: RESOLVE_NO_SYMLINKS,
        ..OpenHow::default()
    };
    let object = match fs::open_at2(AT_FDCWD, &path, &how) {
        // Before Linux 5.6, or denied by the engine's seccomp profile.
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

fn open_by_component(target: &[u8]) -> Result<Fd, Errno> {
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

/// The path of a target in the new root, which is already the root.
///
/// # Errors
///
/// `EINVAL` unless it is absolute and has no `..`.
pub(super) fn path(target: &[u8]) -> Result<CString, Errno> {
    let has_parent_component = target.split(|byte| *byte == b'/').any(|part| part == b"..");
    if target.first() != Some(&b'/') || has_parent_component {
        return Err(Errno::EINVAL);
    }
    terminated(target)
}

/// Makes a target's missing parents.
///
/// # Errors
///
/// What `mkdir` reports.
pub(super) fn make_parents(target: &[u8]) -> Result<(), Errno> {
    match target.iter().rposition(|byte| *byte == b'/') {
        None | Some(0) => Ok(()),
        Some(at) => make_path(&target[..at], 0o755, None),
    }
}

/// Opens the folder at `target`, or with `folder` = false the file. Makes it if it is missing.
///
/// # Errors
///
/// `ENOTDIR` or `EISDIR` if the other kind exists, and what `mkdir` and `open` report.
pub(super) fn create_if_missing(target: &[u8], folder: bool) -> Result<MountPoint, Errno> {
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

/// Creates an empty file.
///
/// # Errors
///
/// `EEXIST`, and what `open` reports.
pub(super) fn create(point: &CString, mode: u32) -> Result<crate::runtime::Fd, Errno> {
    fs::open(
        point,
        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
        mode,
    )
}

/// An unused path in the new root, for a file that is then mounted elsewhere.
pub(super) fn scratch(number: usize) -> Vec<u8> {
    alloc::format!("/.sandbox-{number}").into_bytes()
}
