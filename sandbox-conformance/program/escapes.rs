//! Calls that leave something for other programs: set-user-ID programs, devices, flags, leases.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::cell::Cell;
use core::ffi::CStr;

use crate::runtime::Errno;

use crate::call::{
    AT_FDCWD, O_CREAT, O_EXCL, O_RDONLY, O_RDWR, O_WRONLY, close, open, unlink, write_all,
};
use crate::call_result::{CallResult, Denied, any, done};
use crate::kernel;

const PAGE: usize = 4096;
const MARKS: usize = 0o6000;
const O_TMPFILE: usize = 0o20_200_000;

/// A plain file with content.
fn plain(path: &CStr) -> Result<i32, Errno> {
    let file = open(path, O_RDWR | O_CREAT | O_EXCL)?;
    write_all(file, b"content");
    Ok(file)
}

fn mode_and_size(file: i32) -> Result<(usize, u64), Errno> {
    // struct statx: mode at 28, size at 40.
    let mut record = [0u8; 256];
    kernel!(
        STATX,
        file,
        c"",
        0x1000usize,
        0x7ffusize,
        record.as_mut_slice()
    )?;
    let mode = u16::from_ne_bytes([record[28], record[29]]);
    let mut size = [0u8; 8];
    size.copy_from_slice(&record[40..48]);
    Ok((usize::from(mode), u64::from_ne_bytes(size)))
}

/// Adds content without a write, which would clear the bits: `fallocate` sets the size, and a
/// shared mapping writes.
fn fill(file: i32) -> Result<(), Errno> {
    kernel!(FALLOCATE, file, 0usize, 0usize, PAGE)?;
    let start = kernel!(MMAP, 0usize, PAGE, 3usize, 1usize, file, 0usize)?;
    // SAFETY: the mapping belongs to this function, is writable, and is as long as the file.
    unsafe { (start as *mut u8).write_volatile(b'x') };
    kernel!(MUNMAP, start, PAGE)?;
    Ok(())
}

/// The calls that create a file with these bits.
#[derive(Clone, Copy)]
enum FileCreation {
    ByOpen,
    ByOpen2,
    ByNode,
    WithoutName,
}

fn make(path: &CStr, way: FileCreation, mark: usize) -> Result<i32, Errno> {
    let mode = mark | 0o777;
    let made = match way {
        FileCreation::ByOpen => kernel!(OPENAT, AT_FDCWD, path, O_RDWR | O_CREAT, mode)?,
        FileCreation::ByOpen2 => {
            let how = [(O_RDWR | O_CREAT) as u64, mode as u64, 0];
            kernel!(OPENAT2, AT_FDCWD, path, how.as_slice(), 24usize)?
        }
        FileCreation::ByNode => {
            kernel!(MKNODAT, AT_FDCWD, path, 0o100_000 | mode, 0usize)?;
            kernel!(OPENAT, AT_FDCWD, path, O_RDWR, 0usize)?
        }
        FileCreation::WithoutName => {
            let folder = parent(path)?;
            let flags = O_RDWR | O_TMPFILE;
            let file = kernel!(OPENAT, AT_FDCWD, folder.as_c_str(), flags, mode)?;
            let link = CString::new(format!("/proc/self/fd/{file}")).map_err(|_| Errno::EINVAL)?;
            kernel!(
                LINKAT,
                AT_FDCWD,
                link.as_c_str(),
                AT_FDCWD,
                path,
                0x400usize
            )?;
            file
        }
    };
    Ok(made as i32)
}

fn parent(path: &CStr) -> Result<CString, Errno> {
    let bytes = path.to_bytes();
    let slash = bytes.iter().rposition(|byte| *byte == b'/');
    let end = slash.ok_or(Errno::EINVAL)?.max(1);
    CString::new(&bytes[..end]).map_err(|_| Errno::EINVAL)
}

/// Changes the mode of a file by its path or its descriptor.
fn change(path: &CStr, file: i32, way: usize, mode: usize) -> Result<(), Errno> {
    match way {
        0 => kernel!(FCHMOD, file, mode)?,
        1 => kernel!(FCHMODAT, AT_FDCWD, path, mode)?,
        2 => kernel!(FCHMODAT2, AT_FDCWD, path, mode, 0usize)?,
        #[cfg(target_arch = "x86_64")]
        3 => kernel!(CHMOD, path, mode)?,
        _ => return Err(Errno::ENOSYS),
    };
    Ok(())
}

/// Leaves programs in a folder that run as their owner or group, in every possible way.
pub fn mark(folder: &str) -> CallResult {
    let mut errors = Vec::new();
    let mut left = 0;
    let made = Cell::new(0);
    let mut try_one =
        |name: &str, attempt: &dyn Fn(&CStr) -> Result<i32, Errno>| -> Result<(), Errno> {
            let path = CString::new(format!("{folder}/{name}")).map_err(|_| Errno::EINVAL)?;
            match attempt(&path) {
                Err(error) => {
                    unlink(&path);
                    errors.push(error);
                }
                Ok(file) => {
                    let (mode, size) = mode_and_size(file)?;
                    close(file);
                    // An empty file is not a program.
                    match mode & MARKS != 0 && size > 0 {
                        true => left += 1,
                        false => unlink(&path),
                    }
                }
            }
            Ok(())
        };
    for mark in [0o2000, 0o4000] {
        for way in 0..4 {
            try_one(&format!("changed-{mark:o}-{way}"), &|path| {
                let file = plain(path)?;
                change(path, file, way, mark | 0o755)?;
                Ok(file)
            })?;
        }
        let ways = [
            FileCreation::ByOpen,
            FileCreation::ByOpen2,
            FileCreation::ByNode,
            FileCreation::WithoutName,
        ];
        for (number, way) in ways.into_iter().enumerate() {
            try_one(&format!("made-{mark:o}-{number}"), &|path| {
                let file = make(path, way, mark)?;
                // Newer kernels clear the bits of a file that is written to.
                let (mode, _) = mode_and_size(file)?;
                made.set(made.get() + usize::from(mode & MARKS != 0));
                fill(file)?;
                Ok(file)
            })?;
        }
    }
    match (left + made.get(), errors.is_empty()) {
        (1.., _) => Ok(left.to_string()),
        (_, true) => Err(Denied::Word("cleared")),
        (_, false) => Err(Denied::Errors(errors)),
    }
}

/// Renames a file so that a whiteout device takes its place.
pub fn whiteout(path: &CStr, to: &CStr) -> CallResult {
    close(plain(path)?);
    kernel!(RENAMEAT2, AT_FDCWD, path, AT_FDCWD, to, 4usize)?;
    done()
}

const GET_FLAGS: usize = 0x8008_6601;
const SET_FLAGS: usize = 0x4008_6602;
/// The `nodump` flag, which every file system with flags lets the owner set.
const NO_DUMP: usize = 0x40;

/// Sets a flag of a new file.
pub fn set_flag(path: &CStr) -> CallResult {
    let file = plain(path)?;
    let mut flags = [0usize];
    kernel!(IOCTL, file, GET_FLAGS, flags.as_mut_slice())?;
    flags[0] |= NO_DUMP;
    kernel!(IOCTL, file, SET_FLAGS, flags.as_slice())?;
    done()
}

/// Whether a file has the flag.
pub fn has_flag(path: &CStr) -> CallResult {
    let file = open(path, O_RDONLY)?;
    let mut flags = [0usize];
    kernel!(IOCTL, file, GET_FLAGS, flags.as_mut_slice())?;
    match flags[0] & NO_DUMP {
        0 => Err(Denied::Word("absent")),
        _ => done(),
    }
}

/// Sends requests that change a file system or lead out of one, to a missing file. The kernel
/// reports the missing file, unless a filter denies the request first.
pub fn requests() -> CallResult {
    any(
        REQUESTS.map(|request| match kernel!(IOCTL, -1, request, 0usize) {
            Err(Errno::EBADF) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }),
    )
}

const REQUESTS: [usize; 16] = [
    0x5000_9417, // BTRFS_IOC_SNAP_CREATE_V2
    0x5000_9418, // BTRFS_IOC_SUBVOL_CREATE_V2
    0x5000_9401, // BTRFS_IOC_SNAP_CREATE
    0xd000_9412, // BTRFS_IOC_INO_LOOKUP
    0x4010_bc10, // BCH_IOCTL_SUBVOLUME_CREATE
    0x4008_6602, // FS_IOC_SETFLAGS
    0x401c_5820, // FS_IOC_FSSETXATTR
    0xc050_6617, // FS_IOC_ADD_ENCRYPTION_KEY
    0x4080_6685, // FS_IOC_ENABLE_VERITY
    0x4028_5881, // XFS_IOC_EXCHANGE_RANGE
    0xc068_5879, // XFS_IOC_FREEZE and its neighbors
    0x0000_b702, // NS_GET_PARENT
    0x0000_b701, // NS_GET_USERNS
    0xc040_ff0b, // PIDFD_GET_INFO
    0x0000_5760, // IOC_WATCH_QUEUE_SET_SIZE
    0x4004_f501, // F2FS
];

/// Takes a lease, which blocks other processes that open the file, or requests signals for changes
/// in a folder.
pub fn lease(path: &CStr, folder: &CStr) -> CallResult {
    const F_SETLEASE: usize = 1024;
    const F_NOTIFY: usize = 1026;
    const EXCLUSIVE: usize = 1;
    const CREATED: usize = 4;
    close(plain(path)?);
    let file = open(path, O_WRONLY)?;
    let folder = open(folder, O_RDONLY)?;
    any([
        kernel!(FCNTL, file, F_SETLEASE, EXCLUSIVE),
        kernel!(FCNTL, folder, F_NOTIFY, CREATED),
    ])
}
