//! Facts about files and file systems.

use core::ffi::CStr;

use crate::runtime::descriptor::{Descriptor, word};
use crate::runtime::errno::Errno;
use crate::runtime::syscall::{check, nr, syscall2, syscall4, syscall5};

/// The bits of a mode that hold the kind.
pub const S_IFMT: u32 = 0o170_000;
/// Kind: socket.
pub const S_IFSOCK: u32 = 0o140_000;
/// Kind: symbolic link.
pub const S_IFLNK: u32 = 0o120_000;
/// Kind: regular file.
pub const S_IFREG: u32 = 0o100_000;
/// Kind: block device.
pub const S_IFBLK: u32 = 0o060_000;
/// Kind: folder.
pub const S_IFDIR: u32 = 0o040_000;
/// Kind: character device.
pub const S_IFCHR: u32 = 0o020_000;
/// Kind: fifo.
pub const S_IFIFO: u32 = 0o010_000;

/// `struct stat` of x86_64.
#[cfg(target_arch = "x86_64")]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Stat {
    /// Number of the file system.
    pub device: u64,
    /// Number in the file system.
    pub inode: u64,
    /// How many names it has.
    pub links: u64,
    /// Kind and permission bits.
    pub mode: u32,
    /// Owner.
    pub user: u32,
    /// Group.
    pub group: u32,
    padding: u32,
    /// Number of a device file.
    pub special_device: u64,
    /// Length in bytes.
    pub size: i64,
    /// Best size of a read, in bytes.
    pub block_size: i64,
    /// Space taken, in units of 512 bytes.
    pub blocks: i64,
    /// Last access, seconds since 1970.
    pub access_seconds: i64,
    /// Its nanoseconds.
    pub access_nanoseconds: i64,
    /// Last change of the content, seconds since 1970.
    pub modification_seconds: i64,
    /// Its nanoseconds.
    pub modification_nanoseconds: i64,
    /// Last change of content or facts, seconds since 1970.
    pub change_seconds: i64,
    /// Its nanoseconds.
    pub change_nanoseconds: i64,
    unused: [i64; 3],
}

/// `struct stat` of aarch64.
#[cfg(target_arch = "aarch64")]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Stat {
    /// Number of the file system.
    pub device: u64,
    /// Number in the file system.
    pub inode: u64,
    /// Kind and permission bits.
    pub mode: u32,
    /// How many names it has.
    pub links: u32,
    /// Owner.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Number of a device file.
    pub special_device: u64,
    padding: u64,
    /// Length in bytes.
    pub size: i64,
    /// Best size of a read, in bytes.
    pub block_size: i32,
    padding2: i32,
    /// Space taken, in units of 512 bytes.
    pub blocks: i64,
    /// Last access, seconds since 1970.
    pub access_seconds: i64,
    /// Its nanoseconds.
    pub access_nanoseconds: i64,
    /// Last change of the content, seconds since 1970.
    pub modification_seconds: i64,
    /// Its nanoseconds.
    pub modification_nanoseconds: i64,
    /// Last change of content or facts, seconds since 1970.
    pub change_seconds: i64,
    /// Its nanoseconds.
    pub change_nanoseconds: i64,
    unused: [u32; 2],
}

#[cfg(target_arch = "x86_64")]
const _: () = assert!(size_of::<Stat>() == 144);
#[cfg(target_arch = "aarch64")]
const _: () = assert!(size_of::<Stat>() == 128);

impl Stat {
    /// The kind: one of `S_IF*`.
    pub const fn kind(&self) -> u32 {
        self.mode & S_IFMT
    }

    /// Whether it is a folder.
    pub const fn is_directory(&self) -> bool {
        self.kind() == S_IFDIR
    }

    /// Whether it is a regular file.
    pub const fn is_file(&self) -> bool {
        self.kind() == S_IFREG
    }
}

/// Facts about `path` as seen from `folder`; `flags` are `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
///
/// # Errors
/// What `newfstatat` reports.
pub fn stat_at(folder: impl Descriptor, path: &CStr, flags: i32) -> Result<Stat, Errno> {
    let mut stat = Stat::default();
    // SAFETY: the path is only read, the kernel fills the structure of its architecture.
    check(unsafe {
        syscall4(
            nr::NEWFSTATAT,
            word(folder),
            path.as_ptr() as usize,
            core::ptr::from_mut(&mut stat) as usize,
            flags as usize,
        )
    })?;
    Ok(stat)
}

/// Facts about an open file.
///
/// # Errors
/// `EBADF`.
pub fn stat_of(descriptor: impl Descriptor) -> Result<Stat, Errno> {
    let mut stat = Stat::default();
    // SAFETY: the kernel fills the structure of its architecture.
    check(unsafe {
        syscall2(
            nr::FSTAT,
            word(descriptor),
            core::ptr::from_mut(&mut stat) as usize,
        )
    })?;
    Ok(stat)
}

/// `statx` mask: everything `stat` knows.
pub const STATX_BASIC_STATS: u32 = 0x7ff;
/// `statx` mask: time of birth.
pub const STATX_BTIME: u32 = 0x800;
/// `statx` mask: the mount's number.
pub const STATX_MNT_ID: u32 = 0x1000;
/// `statx` attribute: the file is a mount's root.
pub const STATX_ATTR_MOUNT_ROOT: u64 = 0x2000;

/// `struct statx_timestamp`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StatxTime {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds.
    pub nanoseconds: u32,
    padding: i32,
}

/// `struct statx`, the same on every architecture.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Statx {
    /// Which fields the kernel filled: `STATX_*`.
    pub mask: u32,
    /// Best size of a read, in bytes.
    pub block_size: u32,
    /// `STATX_ATTR_*` that are set.
    pub attributes: u64,
    /// How many names it has.
    pub links: u32,
    /// Owner.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Kind and permission bits.
    pub mode: u16,
    padding: u16,
    /// Number in the file system.
    pub inode: u64,
    /// Length in bytes.
    pub size: u64,
    /// Space taken, in units of 512 bytes.
    pub blocks: u64,
    /// `STATX_ATTR_*` that the file system knows.
    pub attributes_mask: u64,
    /// Last access.
    pub access: StatxTime,
    /// Birth.
    pub birth: StatxTime,
    /// Last change of content or facts.
    pub change: StatxTime,
    /// Last change of the content.
    pub modification: StatxTime,
    /// Number of a device file, major.
    pub special_major: u32,
    /// Number of a device file, minor.
    pub special_minor: u32,
    /// Number of the file system, major.
    pub device_major: u32,
    /// Number of the file system, minor.
    pub device_minor: u32,
    /// Number of the mount.
    pub mount: u64,
    /// Alignment for direct I/O in memory, in bytes.
    pub direct_memory_alignment: u32,
    /// Alignment for direct I/O in the file, in bytes.
    pub direct_offset_alignment: u32,
    spare: [u64; 12],
}

const _: () = assert!(size_of::<Statx>() == 256);

/// Facts about `path` with times of birth and mounts.
///
/// # Errors
/// What `statx` reports.
pub fn statx(folder: impl Descriptor, path: &CStr, flags: i32, mask: u32) -> Result<Statx, Errno> {
    let mut stat = Statx::default();
    // SAFETY: the path is only read, the kernel fills the structure.
    check(unsafe {
        syscall5(
            nr::STATX,
            word(folder),
            path.as_ptr() as usize,
            flags as usize,
            mask as usize,
            core::ptr::from_mut(&mut stat) as usize,
        )
    })?;
    Ok(stat)
}

/// `struct statfs` of 64-bit architectures.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSystem {
    /// The file system's magic number.
    pub magic: i64,
    /// Size of a block in bytes.
    pub block_size: i64,
    /// Blocks in all.
    pub blocks: u64,
    /// Free blocks.
    pub free_blocks: u64,
    /// Blocks free for the unprivileged.
    pub available_blocks: u64,
    /// Inodes in all.
    pub inodes: u64,
    /// Free inodes.
    pub free_inodes: u64,
    /// The file system's id.
    pub id: [i32; 2],
    /// Longest name in bytes.
    pub name_length: i64,
    /// Fragment size in bytes.
    pub fragment_size: i64,
    /// Mount flags: `ST_*`.
    pub flags: i64,
    spare: [i64; 4],
}

const _: () = assert!(size_of::<FileSystem>() == 120);

/// `ST_RDONLY` of [`FileSystem::flags`].
pub const ST_RDONLY: i64 = 1;
/// `ST_NOSUID` of [`FileSystem::flags`].
pub const ST_NOSUID: i64 = 2;
/// `ST_NODEV` of [`FileSystem::flags`].
pub const ST_NODEV: i64 = 4;
/// `ST_NOEXEC` of [`FileSystem::flags`].
pub const ST_NOEXEC: i64 = 8;
/// Magic number of tmpfs.
pub const TMPFS_MAGIC: i64 = 0x0102_1994;
/// Magic number of proc.
pub const PROC_SUPER_MAGIC: i64 = 0x9fa0;
/// Magic number of cgroup v2.
pub const CGROUP2_SUPER_MAGIC: i64 = 0x6367_7270;
/// Magic number of overlayfs.
pub const OVERLAYFS_SUPER_MAGIC: i64 = 0x794c_7630;

/// Facts about the file system that holds an open file.
///
/// # Errors
/// What `fstatfs` reports.
pub fn file_system_of(descriptor: impl Descriptor) -> Result<FileSystem, Errno> {
    let mut facts = FileSystem::default();
    // SAFETY: the kernel fills the structure.
    check(unsafe {
        syscall2(
            nr::FSTATFS,
            word(descriptor),
            core::ptr::from_mut(&mut facts) as usize,
        )
    })?;
    Ok(facts)
}

/// Facts about the file system that holds `path`.
///
/// # Errors
/// What `statfs` reports.
pub fn file_system_at(path: &CStr) -> Result<FileSystem, Errno> {
    let mut facts = FileSystem::default();
    // SAFETY: the path is only read, the kernel fills the structure.
    check(unsafe {
        syscall2(
            nr::STATFS,
            path.as_ptr() as usize,
            core::ptr::from_mut(&mut facts) as usize,
        )
    })?;
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::fs::{AT_FDCWD, O_CLOEXEC, O_RDONLY, open};
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn stat_agrees_with_the_standard_library() {
        let expected = std::fs::metadata("/etc/passwd").unwrap();
        let file = open(c"/etc/passwd", O_RDONLY | O_CLOEXEC, 0).unwrap();
        for stat in [
            stat_of(&file).unwrap(),
            stat_at(AT_FDCWD, c"/etc/passwd", 0).unwrap(),
        ] {
            assert_eq!(stat.device, expected.dev());
            assert_eq!(stat.inode, expected.ino());
            assert_eq!(stat.mode, expected.mode());
            assert_eq!(stat.user, expected.uid());
            assert_eq!(stat.size as u64, expected.len());
            assert_eq!(stat.blocks as u64, expected.blocks());
            assert_eq!(stat.modification_seconds, expected.mtime());
            assert_eq!(stat.change_nanoseconds, expected.ctime_nsec());
            assert!(stat.is_file());
        }
        let extended = statx(AT_FDCWD, c"/etc/passwd", 0, STATX_BASIC_STATS).unwrap();
        assert_eq!(extended.inode, expected.ino());
        assert_eq!(extended.size, expected.len());
        assert_eq!(extended.modification.seconds, expected.mtime());
    }

    #[test]
    fn statfs_identifies_procfs() {
        assert_eq!(file_system_at(c"/proc").unwrap().magic, PROC_SUPER_MAGIC);
    }
}
