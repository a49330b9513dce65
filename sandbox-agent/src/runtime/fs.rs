//! Files and folders by path. Paths are nul-terminated; `at` functions take [`AT_FDCWD`] or a
//! folder's descriptor.

use core::ffi::CStr;

use crate::runtime::descriptor::{Descriptor, Fd, RawFd, word};
use crate::runtime::errno::Errno;
use crate::runtime::syscall::{
    check, nr, result, retry, syscall1, syscall2, syscall3, syscall4, syscall5,
};
use crate::runtime::time::Timespec;

/// The working directory.
pub const AT_FDCWD: RawFd = -100;
/// Do not follow a symbolic link at the path's end.
pub const AT_SYMLINK_NOFOLLOW: i32 = 0x100;
/// `unlinkat`: remove a folder.
pub const AT_REMOVEDIR: i32 = 0x200;
/// `linkat`: follow a symbolic link at the path's end.
pub const AT_SYMLINK_FOLLOW: i32 = 0x400;
/// Do not trigger an automount.
pub const AT_NO_AUTOMOUNT: i32 = 0x800;
/// An empty path means the descriptor itself.
pub const AT_EMPTY_PATH: i32 = 0x1000;
/// `open_tree`, `mount_setattr`: the whole subtree.
pub const AT_RECURSIVE: i32 = 0x8000;
/// `faccessat2`: check with the effective ids.
pub const AT_EACCESS: i32 = 0x200;

/// Open for reading.
pub const O_RDONLY: i32 = 0;
/// Open for writing.
pub const O_WRONLY: i32 = 1;
/// Open for both.
pub const O_RDWR: i32 = 2;
/// Create the file if it is missing.
pub const O_CREAT: i32 = 0o100;
/// With [`O_CREAT`]: fail if the path exists, even as a dangling link.
pub const O_EXCL: i32 = 0o200;
/// Do not make a terminal the controlling one.
pub const O_NOCTTY: i32 = 0o400;
/// Truncate the file.
pub const O_TRUNC: i32 = 0o1000;
/// Every write goes to the end.
pub const O_APPEND: i32 = 0o2000;
/// Fail with `EAGAIN` instead of waiting.
pub const O_NONBLOCK: i32 = 0o4000;
/// Fail unless it is a folder.
pub const O_DIRECTORY: i32 = if cfg!(target_arch = "aarch64") {
    0o40_000
} else {
    0o200_000
};
/// Fail with `ELOOP` on a symbolic link at the path's end.
pub const O_NOFOLLOW: i32 = if cfg!(target_arch = "aarch64") {
    0o100_000
} else {
    0o400_000
};
/// Bypass the page cache.
pub const O_DIRECT: i32 = if cfg!(target_arch = "aarch64") {
    0o200_000
} else {
    0o40_000
};
/// Closed by a successful exec.
pub const O_CLOEXEC: i32 = 0o2_000_000;
/// A descriptor that refers to a path only.
pub const O_PATH: i32 = 0o10_000_000;
/// An unnamed file in the given folder.
pub const O_TMPFILE: i32 = 0o20_000_000 | O_DIRECTORY;

/// `openat2`: do not cross a mount point.
pub const RESOLVE_NO_XDEV: u64 = 0x01;
/// `openat2`: do not follow magic links such as `/proc/self/fd/3`.
pub const RESOLVE_NO_MAGICLINKS: u64 = 0x02;
/// `openat2`: follow no symbolic link at all.
pub const RESOLVE_NO_SYMLINKS: u64 = 0x04;
/// `openat2`: never leave the folder; absolute paths and escaping `..` fail with `EXDEV`.
pub const RESOLVE_BENEATH: u64 = 0x08;
/// `openat2`: treat the folder as the root; `..` and absolute links stay inside.
pub const RESOLVE_IN_ROOT: u64 = 0x10;

/// `renameat2`: fail with `EEXIST` if the target exists.
pub const RENAME_NOREPLACE: u32 = 1;
/// `renameat2`: swap the two.
pub const RENAME_EXCHANGE: u32 = 2;

/// Exists (`faccessat2`).
pub const F_OK: i32 = 0;
/// May be executed (`faccessat2`).
pub const X_OK: i32 = 1;
/// May be written (`faccessat2`).
pub const W_OK: i32 = 2;
/// May be read (`faccessat2`).
pub const R_OK: i32 = 4;

/// `struct open_how`, the argument of `openat2`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenHow {
    /// `O_*`.
    pub flags: u64,
    /// Permission bits of a created file; must be 0 unless one may be created.
    pub mode: u64,
    /// `RESOLVE_*`.
    pub resolve: u64,
}

fn pointer(path: &CStr) -> usize {
    path.as_ptr() as usize
}

/// Opens `path` relative to the working directory. Retried on `EINTR`.
///
/// # Errors
/// What `openat` reports.
pub fn open(path: &CStr, flags: i32, mode: u32) -> Result<Fd, Errno> {
    open_at(AT_FDCWD, path, flags, mode)
}

/// Opens `path` relative to `folder`. Retried on `EINTR`.
///
/// # Errors
/// What `openat` reports.
pub fn open_at(folder: impl Descriptor, path: &CStr, flags: i32, mode: u32) -> Result<Fd, Errno> {
    let folder = word(folder);
    retry(|| {
        // SAFETY: the path is nul-terminated and only read.
        result(unsafe {
            syscall4(
                nr::OPENAT,
                folder,
                pointer(path),
                flags as usize,
                mode as usize,
            )
        })
    })
    .map(|raw| Fd::from_raw(raw as RawFd))
}

/// Opens `path` with restrictions on how it may resolve. Repeated on `EINTR`, and a few times on
/// `EAGAIN`, which the kernel gives when a rename raced with a restricted `..`.
///
/// # Errors
/// What `openat2` reports; `ENOSYS` before Linux 5.6, `EXDEV` for a path that would escape.
pub fn open_at2(folder: impl Descriptor, path: &CStr, how: &OpenHow) -> Result<Fd, Errno> {
    let folder = word(folder);
    let mut attempts = 0;
    loop {
        let opened = retry(|| {
            // SAFETY: path and structure are only read, the size is the structure's.
            result(unsafe {
                syscall4(
                    nr::OPENAT2,
                    folder,
                    pointer(path),
                    core::ptr::from_ref(how) as usize,
                    size_of::<OpenHow>(),
                )
            })
        });
        match opened {
            Err(crate::runtime::Errno::EAGAIN) if attempts < 16 => attempts += 1,
            other => return other.map(|raw| Fd::from_raw(raw as RawFd)),
        }
    }
}

/// Creates a folder.
///
/// # Errors
/// What `mkdirat` reports.
pub fn make_directory(folder: impl Descriptor, path: &CStr, mode: u32) -> Result<(), Errno> {
    // SAFETY: the path is nul-terminated and only read.
    check(unsafe { syscall3(nr::MKDIRAT, word(folder), pointer(path), mode as usize) })
}

/// Creates a device, fifo, socket or file: `mode` holds the kind (`S_IF*`) and permissions.
///
/// # Errors
/// What `mknodat` reports.
pub fn make_node(
    folder: impl Descriptor,
    path: &CStr,
    mode: u32,
    device: u64,
) -> Result<(), Errno> {
    // SAFETY: the path is nul-terminated and only read.
    check(unsafe {
        syscall4(
            nr::MKNODAT,
            word(folder),
            pointer(path),
            mode as usize,
            device as usize,
        )
    })
}

/// The device number of `major` and `minor`.
pub const fn device(major: u32, minor: u32) -> u64 {
    let (major, minor) = (major as u64, minor as u64);
    (major & 0xfff) << 8 | (major & !0xfff) << 32 | (minor & 0xff) | (minor & !0xff) << 12
}

/// Removes a name, with [`AT_REMOVEDIR`] an empty folder.
///
/// # Errors
/// What `unlinkat` reports.
pub fn unlink(folder: impl Descriptor, path: &CStr, flags: i32) -> Result<(), Errno> {
    // SAFETY: the path is nul-terminated and only read.
    check(unsafe { syscall3(nr::UNLINKAT, word(folder), pointer(path), flags as usize) })
}

/// Creates a symbolic link to `target` at `path`.
///
/// # Errors
/// What `symlinkat` reports.
pub fn symlink(target: &CStr, folder: impl Descriptor, path: &CStr) -> Result<(), Errno> {
    // SAFETY: the paths are nul-terminated and only read.
    check(unsafe { syscall3(nr::SYMLINKAT, pointer(target), word(folder), pointer(path)) })
}

/// Creates a hard link.
///
/// # Errors
/// What `linkat` reports.
pub fn link(
    old_folder: impl Descriptor,
    old: &CStr,
    new_folder: impl Descriptor,
    new: &CStr,
    flags: i32,
) -> Result<(), Errno> {
    // SAFETY: the paths are nul-terminated and only read.
    check(unsafe {
        syscall5(
            nr::LINKAT,
            word(old_folder),
            pointer(old),
            word(new_folder),
            pointer(new),
            flags as usize,
        )
    })
}

/// Renames; `flags` are `RENAME_*`.
///
/// # Errors
/// What `renameat2` reports.
pub fn rename(
    old_folder: impl Descriptor,
    old: &CStr,
    new_folder: impl Descriptor,
    new: &CStr,
    flags: u32,
) -> Result<(), Errno> {
    // SAFETY: the paths are nul-terminated and only read.
    check(unsafe {
        syscall5(
            nr::RENAMEAT2,
            word(old_folder),
            pointer(old),
            word(new_folder),
            pointer(new),
            flags as usize,
        )
    })
}

/// Reads a symbolic link's target into `buffer`. A result that fills the buffer may be truncated.
///
/// # Errors
/// What `readlinkat` reports; `EINVAL` when it is not a link.
pub fn read_link<'a>(
    folder: impl Descriptor,
    path: &CStr,
    buffer: &'a mut [u8],
) -> Result<&'a [u8], Errno> {
    // SAFETY: the kernel writes at most `buffer.len()` bytes into `buffer`.
    let length = result(unsafe {
        syscall4(
            nr::READLINKAT,
            word(folder),
            pointer(path),
            buffer.as_mut_ptr() as usize,
            buffer.len(),
        )
    })?;
    Ok(&buffer[..length])
}

/// Checks access with the real IDs, or with [`AT_EACCESS`] the effective ones.
///
/// # Errors
/// What `faccessat2` reports, which needs Linux 5.8 (`ENOSYS` before).
pub fn access(folder: impl Descriptor, path: &CStr, mode: i32, flags: i32) -> Result<(), Errno> {
    // SAFETY: the path is nul-terminated and only read.
    check(unsafe {
        syscall4(
            nr::FACCESSAT2,
            word(folder),
            pointer(path),
            mode as usize,
            flags as usize,
        )
    })
}

/// Sets permission bits; follows links.
///
/// # Errors
/// What `fchmodat` reports.
pub fn change_mode(folder: impl Descriptor, path: &CStr, mode: u32) -> Result<(), Errno> {
    // SAFETY: the path is nul-terminated and only read.
    check(unsafe { syscall3(nr::FCHMODAT, word(folder), pointer(path), mode as usize) })
}

/// Sets an open file's permission bits.
///
/// # Errors
/// What `fchmod` reports.
pub fn change_mode_of(descriptor: impl Descriptor, mode: u32) -> Result<(), Errno> {
    // SAFETY: the call takes no pointer.
    check(unsafe { syscall2(nr::FCHMOD, word(descriptor), mode as usize) })
}

/// Sets owner and group; `u32::MAX` leaves one unchanged.
///
/// # Errors
/// What `fchownat` reports.
pub fn change_owner(
    folder: impl Descriptor,
    path: &CStr,
    user: u32,
    group: u32,
    flags: i32,
) -> Result<(), Errno> {
    // SAFETY: the path is nul-terminated and only read.
    check(unsafe {
        syscall5(
            nr::FCHOWNAT,
            word(folder),
            pointer(path),
            user as usize,
            group as usize,
            flags as usize,
        )
    })
}

/// Sets access and modification times; `None` means now for both.
///
/// # Errors
/// What `utimensat` reports.
pub fn set_times(
    folder: impl Descriptor,
    path: &CStr,
    times: Option<&[Timespec; 2]>,
    flags: i32,
) -> Result<(), Errno> {
    let times = times.map_or(0, |times| times.as_ptr() as usize);
    // SAFETY: path and times are only read.
    check(unsafe {
        syscall4(
            nr::UTIMENSAT,
            word(folder),
            pointer(path),
            times,
            flags as usize,
        )
    })
}

/// Sets an open file's length in bytes.
///
/// # Errors
/// What `ftruncate` reports.
pub fn truncate(descriptor: impl Descriptor, length: u64) -> Result<(), Errno> {
    // SAFETY: the call takes no pointer.
    check(unsafe { syscall2(nr::FTRUNCATE, word(descriptor), length as usize) })
}

/// Changes the working directory.
///
/// # Errors
/// What `chdir` reports.
pub fn change_directory(path: &CStr) -> Result<(), Errno> {
    // SAFETY: the path is nul-terminated and only read.
    check(unsafe { syscall1(nr::CHDIR, pointer(path)) })
}

/// Changes the working directory to an open folder.
///
/// # Errors
/// What `fchdir` reports.
pub fn change_directory_to(descriptor: impl Descriptor) -> Result<(), Errno> {
    // SAFETY: the call takes no pointer.
    check(unsafe { syscall1(nr::FCHDIR, word(descriptor)) })
}

/// Sets the umask and returns the previous one.
pub fn set_umask(mask: u32) -> u32 {
    // SAFETY: the call takes no pointer; it cannot fail.
    unsafe { syscall1(nr::UMASK, mask as usize) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{Errno, io, path};
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn openat2_stays_beneath_the_folder() {
        let temp_dir = tempfile::tempdir().unwrap();
        let folder = path::terminated(temp_dir.path().as_os_str().as_bytes()).unwrap();
        let folder = open(&folder, O_PATH | O_DIRECTORY | O_CLOEXEC, 0).unwrap();
        let how = OpenHow {
            flags: (O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC) as u64,
            mode: 0o600,
            resolve: RESOLVE_BENEATH,
        };
        let file = open_at2(&folder, c"inside", &how).unwrap();
        io::write_all(&file, b"data").unwrap();
        assert_eq!(
            open_at2(&folder, c"inside", &how).unwrap_err(),
            Errno::EEXIST
        );
        let reading = OpenHow {
            flags: O_RDONLY as u64,
            mode: 0,
            resolve: RESOLVE_BENEATH,
        };
        assert_eq!(
            open_at2(&folder, c"../x", &reading).unwrap_err(),
            Errno::EXDEV
        );
        symlink(c"/etc/passwd", &folder, c"link").unwrap();
        assert_eq!(
            open_at2(&folder, c"link", &reading).unwrap_err(),
            Errno::EXDEV
        );
        let mut buffer = [0; 64];
        assert_eq!(
            read_link(&folder, c"link", &mut buffer).unwrap(),
            b"/etc/passwd"
        );
        assert_eq!(
            open_at(&folder, c"link", O_RDONLY | O_NOFOLLOW, 0).unwrap_err(),
            Errno::ELOOP
        );
        assert_eq!(
            open_at(&folder, c"inside", O_RDONLY | O_DIRECTORY, 0).unwrap_err(),
            Errno::ENOTDIR
        );
    }

    #[test]
    fn entries_are_made_renamed_linked_and_removed() {
        let temp_dir = tempfile::tempdir().unwrap();
        let folder = path::terminated(temp_dir.path().as_os_str().as_bytes()).unwrap();
        let folder = open(&folder, O_PATH | O_DIRECTORY | O_CLOEXEC, 0).unwrap();
        make_directory(&folder, c"sub", 0o700).unwrap();
        make_node(&folder, c"fifo", crate::runtime::stat::S_IFIFO | 0o600, 0).unwrap();
        rename(&folder, c"fifo", &folder, c"sub/fifo", RENAME_NOREPLACE).unwrap();
        assert_eq!(unlink(&folder, c"sub", AT_REMOVEDIR), Err(Errno::ENOTEMPTY));
        change_mode(&folder, c"sub/fifo", 0o640).unwrap();
        set_times(&folder, c"sub/fifo", None, 0).unwrap();
        link(&folder, c"sub/fifo", &folder, c"second", 0).unwrap();
        access(&folder, c"second", R_OK, 0).unwrap();
        unlink(&folder, c"second", 0).unwrap();
        unlink(&folder, c"sub/fifo", 0).unwrap();
        unlink(&folder, c"sub", AT_REMOVEDIR).unwrap();
        assert_eq!(access(&folder, c"sub", F_OK, 0), Err(Errno::ENOENT));
    }

    #[test]
    fn device_numbers_use_the_kernels_encoding() {
        assert_eq!(device(1, 3), 0x103);
        assert_eq!(device(0x12345, 0x6789a), makedev(0x12345, 0x6789a));
    }

    /// The encoding in independent arithmetic: minor's low byte, major's low 12 bits, then the rest
    /// of both.
    fn makedev(major: u64, minor: u64) -> u64 {
        minor % 256 + major % 4096 * 256 + minor / 256 * (1 << 20) + major / 4096 * (1 << 44)
    }
}
