//! Bind mounts without the system calls of Linux 5.2 and 5.12: `mount`, then a remount of each
//! submount.

use alloc::{ffi::CString, vec::Vec};
use core::ffi::CStr;

use crate::runtime::{
    Errno, Fd, fs,
    fs::{O_CLOEXEC, O_RDONLY},
    io,
    mount::{
        MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC, MOUNT_ATTR_NOSUID, MOUNT_ATTR_RDONLY, MS_BIND,
        MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY, MS_REC, MS_REMOUNT, mount,
    },
    path::terminated,
    stat::file_system_at,
};

use super::bind::MountRestriction;

/// The largest list of mounts that is read, in bytes.
const MAX_MOUNTS: usize = 16 * 1024 * 1024;

/// Mount flags that a remount must keep, because a user namespace locks them: the bit of `statfs`,
/// and the bit of `mount`. They differ for `relatime` alone.
const LOCKED_FLAGS: [(i64, u64); 7] = [
    (1, MS_RDONLY),
    (2, MS_NOSUID),
    (4, MS_NODEV),
    (8, MS_NOEXEC),
    (1024, 1024),
    (2048, 2048),
    (4096, 1 << 21),
];

/// Mounts `source`, with its submounts, at a mount point and restricts each of them. The mounts are
/// listed in the procfs of `old_root`.
///
/// # Errors
///
/// What `mount` reports. The caller then gives up the root, so a partly restricted mount is never
/// used.
pub(super) fn bind(
    source: &CStr,
    point: &CString,
    restriction: MountRestriction,
    old_root: &Fd,
) -> Result<(), Errno> {
    mount(Some(source), point, None, MS_BIND | MS_REC, None)?;
    let mut flags = MS_NOSUID;
    if restriction.read_only {
        flags |= MS_RDONLY;
    }
    if !restriction.devices {
        flags |= MS_NODEV;
    }
    let list = fs::open_at(old_root, c"proc/self/mountinfo", O_RDONLY | O_CLOEXEC, 0)?;
    let mut text = Vec::new();
    io::read_to_end(&list, &mut text, MAX_MOUNTS)?;
    let mut restricted = 0;
    for point in points_below(&text, point.to_bytes()) {
        remount(&terminated(point)?, flags)?;
        restricted += 1;
    }
    // The mount itself is listed, unless its path goes through a link.
    if restricted == 0 {
        Err(Errno::ENOENT)
    } else {
        Ok(())
    }
}

/// Mounts a file or folder without its submounts.
///
/// # Errors
///
/// What `mount` reports.
pub(super) fn bind_single(from: &CStr, point: &CStr, attributes: u64) -> Result<(), Errno> {
    mount(Some(from), point, None, MS_BIND, None)?;
    let flags = [
        (MOUNT_ATTR_RDONLY, MS_RDONLY),
        (MOUNT_ATTR_NOSUID, MS_NOSUID),
        (MOUNT_ATTR_NODEV, MS_NODEV),
        (MOUNT_ATTR_NOEXEC, MS_NOEXEC),
    ]
    .into_iter()
    .filter(|(attribute, _)| attributes & attribute != 0)
    .fold(0, |flags, (_, flag)| flags | flag);
    remount(point, flags)
}

/// Mounts a folder, with its submounts, on itself.
///
/// # Errors
///
/// What `mount` reports.
pub(super) fn pin(point: &CStr) -> Result<(), Errno> {
    mount(Some(point), point, None, MS_BIND | MS_REC, None)
}

/// Adds flags to a mount.
///
/// # Errors
///
/// What `mount` reports.
pub(super) fn remount(point: &CStr, flags: u64) -> Result<(), Errno> {
    let present = file_system_at(point)?.flags;
    let locked = LOCKED_FLAGS
        .into_iter()
        .filter(|(shown, _)| present & shown != 0)
        .fold(0, |locked, (_, flag)| locked | flag);
    mount(
        None,
        point,
        None,
        MS_REMOUNT | MS_BIND | flags | locked,
        None,
    )
}

/// The mount points in a `mountinfo` that are `parent` or below it.
fn points_below(text: &[u8], parent: &[u8]) -> Vec<Vec<u8>> {
    text.split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(unescape)
        .filter(|point| {
            point
                .strip_prefix(parent)
                .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        })
        .collect()
}

/// Decodes blanks, line feeds and backslashes, which are written as a backslash and three octal
/// digits.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        if let (
            b'\\',
            [
                a @ b'0'..=b'3',
                b @ b'0'..=b'7',
                c @ b'0'..=b'7',
                after @ ..,
            ],
        ) = (first, tail)
        {
            plain.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
            rest = after;
        } else {
            plain.push(*first);
            rest = tail;
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submounts_are_found_in_mountinfo() {
        let text = b"1 0 8:1 / / rw - ext4 x rw\n\
            2 1 8:1 / /a rw - ext4 x rw\n\
            3 2 8:1 / /a/b\\040c rw - ext4 x rw\n\
            4 1 8:1 / /ab rw - ext4 x rw\n\n";
        assert_eq!(
            points_below(text, b"/a"),
            [b"/a".to_vec(), b"/a/b c".to_vec()]
        );
        assert_eq!(points_below(text, b"/x"), [] as [Vec<u8>; 0]);
        assert_eq!(unescape(b"a\\134\\0x\\9"), b"a\\\\0x\\9");
    }
}
