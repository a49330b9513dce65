//! Bind mounts without the calls of Linux 5.2 and 5.12: the classic `mount`, then a remount of each mount below.

use alloc::{ffi::CString, vec::Vec};
use core::ffi::CStr;

use crate::runtime::{
    Errno, Fd, Result, fs,
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

/// Flags of a mount that a remount must keep: in a user namespace they are locked. As `statfs` shows them (which is as
/// `mount` takes them, but for the two kinds of lazy access times).
const LOCKED_FLAGS: [(i64, u64); 7] = [
    (1, MS_RDONLY),
    (2, MS_NOSUID),
    (4, MS_NODEV),
    (8, MS_NOEXEC),
    (1024, 1024),
    (2048, 2048),
    (4096, 1 << 21),
];

/// Mounts `source`, with all that is mounted below it, on `place` and restricts every part. `old` is the old root, in
/// whose procfs the mounts are listed.
///
/// # Errors
///
/// What `mount` reports; nothing is left half restricted that could be used, since the caller gives up.
pub(super) fn bind(
    source: &CStr,
    point: &CString,
    restriction: MountRestriction,
    old_root: &Fd,
) -> Result<()> {
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
    // The mount itself is in the list, unless its path goes over a link.
    if restricted == 0 {
        Err(Errno::ENOENT)
    } else {
        Ok(())
    }
}

/// Mounts one file or folder on another place, without what is mounted below it.
///
/// # Errors
///
/// What `mount` reports.
pub(super) fn bind_single(from: &CStr, point: &CStr, attributes: u64) -> Result<()> {
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

/// Mounts a folder, with all that is mounted below it, on itself.
///
/// # Errors
///
/// What `mount` reports.
pub(super) fn pin(point: &CStr) -> Result<()> {
    mount(Some(point), point, None, MS_BIND | MS_REC, None)
}

/// Adds flags to a mount.
///
/// # Errors
///
/// What `mount` reports.
pub(super) fn remount(point: &CStr, flags: u64) -> Result<()> {
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

/// The mount points of a `mountinfo` that are `place` or below it.
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

/// Blanks, line ends and backslashes stand as a backslash and three octal digits.
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
    fn finds_the_mounts_below() {
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
