//! Calls on files.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::runtime::Errno;

use crate::ProbeArguments;
use crate::call::{
    AT_FDCWD, O_CREAT, O_EXCL, O_NONBLOCK, O_RDONLY, O_TRUNC, O_WRONLY, close, now, open, unlink,
    write_all,
};
use crate::call_result::{CallResult, Denied, any, done};
use crate::kernel;
use crate::runtime::stat::stat_at;

const MOST: usize = 1 << 20;

/// The start of a file, at most 1 MiB.
pub fn content(path: &CStr) -> Result<Vec<u8>, Errno> {
    let file = open(path, O_RDONLY | O_NONBLOCK)?;
    let mut bytes = Vec::new();
    let mut piece = [0u8; 4096];
    let result = loop {
        match kernel!(READ, file, piece.as_mut_slice(), piece.len()) {
            Ok(0) => break Ok(bytes),
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) => break Err(error),
        }
        if bytes.len() >= MOST {
            break Ok(bytes);
        }
    };
    close(file);
    result
}

/// Length and FNV-1a hash, so that no content gets into a report.
pub fn read(path: &CStr) -> CallResult {
    Ok(fingerprint(&content(path)?))
}

/// Reads one of several files.
pub fn read_any(arguments: &ProbeArguments) -> CallResult {
    any((0..arguments.texts().count()).map(|index| content(arguments.path(index))))
}

/// Length and hash of a whole file: FNV-1a over words of 8 bytes, the last one padded with zeros.
pub fn digest(path: &CStr) -> CallResult {
    let file = open(path, O_RDONLY)?;
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut length = 0;
    let mut piece = vec![0u8; 65536];
    loop {
        let mut filled = 0;
        while filled < piece.len() {
            match kernel!(READ, file, &mut piece[filled..], piece.len() - filled)? {
                0 => break,
                count => filled += count,
            }
        }
        for word in piece[..filled].chunks(8) {
            let mut bytes = [0u8; 8];
            bytes[..word.len()].copy_from_slice(word);
            hash = (hash ^ u64::from_le_bytes(bytes)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        length += filled;
        if filled < piece.len() {
            break;
        }
    }
    close(file);
    Ok(format!("{length}:{hash:016x}"))
}

/// Reads the first `half` bytes, reports that, waits for the end of standard input, and reads the
/// rest. Returns length and hash of both parts.
pub fn read_in_two(path: &CStr, half: usize) -> CallResult {
    let file = open(path, O_RDONLY)?;
    let mut bytes = vec![0u8; half];
    let count = kernel!(READ, file, bytes.as_mut_slice(), half)?;
    bytes.truncate(count);
    write_all(1, b"half\n");
    let mut piece = [0u8; 4096];
    while kernel!(READ, 0usize, piece.as_mut_slice(), piece.len())? > 0 {}
    loop {
        match kernel!(READ, file, piece.as_mut_slice(), piece.len())? {
            0 => break,
            count => bytes.extend_from_slice(&piece[..count]),
        }
    }
    close(file);
    Ok(fingerprint(&bytes))
}

fn fingerprint(bytes: &[u8]) -> alloc::string::String {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold);
    format!("{}:{hash:016x}", bytes.len())
}

pub fn read_through_link(target: &CStr, link: &CStr) -> CallResult {
    kernel!(SYMLINKAT, target, AT_FDCWD, link)?;
    let result = read(link);
    unlink(link);
    result
}

pub fn read_through_hard_link(target: &CStr, link: &CStr) -> CallResult {
    kernel!(LINKAT, AT_FDCWD, target, AT_FDCWD, link, 0usize)?;
    let result = read(link);
    unlink(link);
    result
}

/// Looks for the file below the root and the working folder of every visible process.
pub fn read_through_proc(below: &str) -> CallResult {
    let mut errors = Vec::new();
    for pid in crate::processes::visible()? {
        for place in ["root", "cwd/../../../../../../../../.."] {
            let Ok(path) = CString::new(format!("/proc/{pid}/{place}{below}")) else {
                continue;
            };
            match read(&path) {
                Ok(value) => return Ok(value),
                Err(Denied::Errors(more)) => errors.extend(more),
                Err(other) => return Err(other),
            }
        }
    }
    errors.sort();
    errors.dedup();
    Err(Denied::Errors(errors))
}

pub fn write(path: &CStr, text: &str) -> CallResult {
    let file = open(path, O_WRONLY | O_TRUNC)?;
    write_all(file, text.as_bytes());
    close(file);
    done()
}

pub fn create(path: &CStr) -> CallResult {
    close(open(path, O_WRONLY | O_CREAT | O_EXCL)?);
    done()
}

/// Creates one of the files, and removes it again.
pub fn create_any(arguments: &ProbeArguments) -> CallResult {
    any((0..arguments.texts().count()).map(|index| {
        let path = arguments.path(index);
        close(open(path, O_WRONLY | O_CREAT | O_EXCL)?);
        unlink(path);
        Ok(())
    }))
}

pub fn create_and_rename(from: &CStr, to: &CStr) -> CallResult {
    close(open(from, O_WRONLY | O_CREAT | O_EXCL)?);
    rename(from, to)
}

/// Creates a file of this size (0), a symbolic link to the third argument (1) or a FIFO (2), with
/// its parent folders, and leaves it there.
pub fn make(arguments: &ProbeArguments) -> CallResult {
    let path = arguments.path(0);
    let text = path.to_bytes();
    for (index, byte) in text.iter().enumerate().skip(1) {
        if *byte == b'/'
            && let Ok(parent) = CString::new(&text[..index])
        {
            // An existing folder is fine.
            let _ = kernel!(MKDIRAT, AT_FDCWD, parent.as_c_str(), 0o755usize);
        }
    }
    match arguments.number(1) {
        0 => {
            let length = arguments.number(2);
            let file = open(path, O_WRONLY | O_CREAT | O_TRUNC)?;
            write_all(file, &crate::streams::pattern(0, length));
            close(file);
        }
        1 => {
            kernel!(SYMLINKAT, arguments.path(2), AT_FDCWD, path)?;
        }
        _ => {
            kernel!(MKNODAT, AT_FDCWD, path, 0o010_644usize, 0usize)?;
        }
    }
    done()
}

/// Changes mode, times, owner and an extended attribute, each without opening the file for writing.
pub fn attributes(path: &CStr) -> CallResult {
    let times = [1usize, 0, 1, 0];
    let uid = kernel!(GETUID)?;
    any([
        kernel!(FCHMODAT, AT_FDCWD, path, 0o777usize),
        kernel!(UTIMENSAT, AT_FDCWD, path, times.as_slice(), 0usize),
        kernel!(FCHOWNAT, AT_FDCWD, path, uid, -1, 0usize),
        kernel!(
            SETXATTR,
            path,
            c"user.probe",
            b"x".as_slice(),
            1usize,
            0usize
        ),
    ])
}

/// The same on a new file.
pub fn own_attributes(path: &CStr) -> CallResult {
    close(open(path, O_WRONLY | O_CREAT | O_EXCL)?);
    let result = attributes(path);
    unlink(path);
    result
}

/// Renames a folder as soon as its entries change.
pub fn rename_changed(from: &CStr, to: &CStr) -> CallResult {
    let changed = || {
        stat_at(AT_FDCWD, from, 0).map(|it| (it.modification_seconds, it.modification_nanoseconds))
    };
    let first = changed()?;
    let end = now() + 10_000;
    while changed()? == first {
        if now() > end {
            return Err(Denied::Word("unchanged"));
        }
    }
    rename(from, to)
}

pub fn rename(from: &CStr, to: &CStr) -> CallResult {
    kernel!(RENAMEAT2, AT_FDCWD, from, AT_FDCWD, to, 0usize)?;
    done()
}

/// Creates a character device and opens it.
pub fn device(path: &CStr, major: usize, minor: usize) -> CallResult {
    kernel!(MKNODAT, AT_FDCWD, path, 0o020_666usize, major << 8 | minor)?;
    let opened = open(path, O_RDONLY | O_NONBLOCK);
    unlink(path);
    close(opened?);
    done()
}

/// Opens a file by its handle, past the permissions of its parent folders.
pub fn handle(path: &CStr) -> CallResult {
    let mut handle = vec![0u8; 8 + 128];
    handle[0] = 128;
    let mut mount = [0i32; 1];
    let named = kernel!(
        NAME_TO_HANDLE_AT,
        AT_FDCWD,
        path,
        handle.as_mut_slice(),
        mount.as_mut_slice(),
        0usize
    );
    if let Err(error) = named {
        // Another process may tell the handle, so the second call must be refused too.
        return match kernel!(OPEN_BY_HANDLE_AT, -1, handle.as_mut_slice(), O_RDONLY) {
            Err(refused @ (Errno::EPERM | Errno::ENOSYS)) => {
                Err(Denied::Errors(Vec::from([error, refused])))
            }
            _ => Ok("the kernel saw a handle".into()),
        };
    }
    let folder = open(c"/tmp", O_RDONLY)?;
    let opened = kernel!(OPEN_BY_HANDLE_AT, folder, handle.as_mut_slice(), O_RDONLY);
    // The file may be on another file system than /tmp, so its folder is the mount to use.
    let opened = match opened {
        Err(Errno::ESTALE) => {
            let anchor = open(path, O_RDONLY)?;
            kernel!(OPEN_BY_HANDLE_AT, anchor, handle.as_mut_slice(), O_RDONLY)
        }
        other => other,
    };
    opened?;
    done()
}

/// Opens each for writing without writing.
pub fn open_for_writing(arguments: &ProbeArguments) -> CallResult {
    let tries = (0..arguments.texts().count()).map(|index| open(arguments.path(index), O_WRONLY));
    any(tries)
}

/// Type and permission bits of a path, which is not followed.
fn type_and_mode(path: &CStr) -> Result<u32, Errno> {
    const MODE: usize = 28;
    const STATX_TYPE_AND_MODE: usize = 3;
    const NO_FOLLOW: usize = 0x100;
    let mut status = [0u8; 256];
    kernel!(
        STATX,
        AT_FDCWD,
        path,
        NO_FOLLOW,
        STATX_TYPE_AND_MODE,
        status.as_mut_slice()
    )?;
    Ok(u32::from(u16::from_ne_bytes([
        status[MODE],
        status[MODE + 1],
    ])))
}

/// The file system and the number of the file at a path.
pub fn identity(path: &CStr) -> CallResult {
    let found = stat_at(AT_FDCWD, path, 0)?;
    Ok(format!("{}:{}", found.device, found.inode))
}

/// The permission bits of a path, in octal digits.
pub fn mode(path: &CStr) -> CallResult {
    Ok(format!("{:o}", type_and_mode(path)? & 0o7777))
}

/// The first of these paths that is a device node. Only its metadata is read, which no permission
/// of the node denies.
pub fn device_nodes(arguments: &ProbeArguments) -> CallResult {
    const TYPE: u32 = 0o170_000;
    const NODES: [u32; 2] = [0o020_000, 0o060_000];
    for index in 0..arguments.count() {
        let found = type_and_mode(arguments.path(index));
        if found.is_ok_and(|mode| NODES.contains(&(mode & TYPE))) {
            return Ok(String::from(arguments.text(index)));
        }
    }
    Err(Denied::Word("absent"))
}

/// Folders of the kernel, which list processes and devices.
const KERNELS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// How deep below the root [`find_name`] looks, and at how many entries.
const DEPTH: usize = 4;
const ENTRIES: usize = 400_000;

/// The path of a file with this name in any folder near the root.
pub fn find_name(name: &str) -> CallResult {
    let mut folders = Vec::from([String::from("/")]);
    let mut seen = 0;
    let mut found = None;
    for _ in 0..DEPTH {
        let mut deeper = Vec::new();
        for folder in folders {
            // What cannot be listed shows nothing.
            let Ok(path) = CString::new(folder.as_str()) else {
                continue;
            };
            let _ = crate::directory::entries(&path, |entry, is_folder| {
                seen += 1;
                let path = format!("{}/{entry}", folder.trim_end_matches('/'));
                if is_folder && !KERNELS.contains(&path.as_str()) {
                    deeper.push(path);
                } else if entry == name {
                    found = Some(path);
                }
            });
            if let Some(found) = found {
                return Ok(found);
            }
            if seen > ENTRIES {
                return Err(Denied::Word("too_many_entries"));
            }
        }
        folders = deeper;
    }
    Err(Denied::Word("absent"))
}
