//! Measures limits: how much the kernel grants until it refuses more. Each result is a number, at
//! most `most`.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::ProbeArguments;
use crate::call::{
    O_CREAT, O_NOCTTY, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, close, open, pause, unlink, write_all,
};
use crate::call_result::CallResult;
use crate::forking::{child, reap};
use crate::kernel;
use crate::resources::take;
use crate::runtime::Errno;

const RLIMIT_DATA: usize = 2;
const RLIMIT_NPROC: usize = 6;
const RLIMIT_NOFILE: usize = 7;
const SIGKILL: usize = 9;
const KIB: usize = 1024;

/// Raises a limit of this process to its hard limit, as any code may.
fn raise(resource: usize) -> Result<(), Errno> {
    let mut limits = [0usize; 2];
    kernel!(PRLIMIT64, 0usize, resource, 0usize, limits.as_mut_slice())?;
    limits[0] = limits[1];
    kernel!(PRLIMIT64, 0usize, resource, limits.as_slice(), 0usize).map(drop)
}

/// Opens files until there is no descriptor left: the number of descriptors of this process.
pub fn open_files(most: usize) -> CallResult {
    raise(RLIMIT_NOFILE)?;
    let mut last = open(c"/", O_RDONLY)?;
    while (last as usize) + 1 < most {
        match kernel!(DUP, last) {
            Ok(next) => last = next as i32,
            Err(Errno::EMFILE) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok((last as usize + 1).to_string())
}

/// Opens terminals until that is refused: their number.
pub fn terminals(most: usize) -> CallResult {
    raise(RLIMIT_NOFILE)?;
    for count in 0..most {
        match open(c"/dev/ptmx", O_RDWR | O_NOCTTY) {
            Ok(_) => {}
            Err(Errno::ENOSPC) => return Ok(count.to_string()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(most.to_string())
}

/// Forks until that is refused: the number of processes, with this one.
pub fn processes(most: usize) -> CallResult {
    raise(RLIMIT_NPROC)?;
    let mut children = Vec::new();
    let result = loop {
        if children.len() + 1 >= most {
            break Ok(());
        }
        match child(|| pause(20_000)) {
            Ok(pid) => children.push(pid),
            Err(Errno::EAGAIN) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    for pid in &children {
        // These are children of this process, and exist until they are reaped.
        let _ = kernel!(KILL, *pid, SIGKILL);
    }
    for pid in &children {
        reap(*pid)?;
    }
    result?;
    Ok((children.len() + 1).to_string())
}

/// Takes memory by the MiB, and prints a line after each: the number of MiB. The lines tell how much
/// a killed program got.
pub fn memory(most: usize) -> CallResult {
    raise(RLIMIT_DATA)?;
    let mut taken = 0;
    while taken < most {
        match take(1) {
            Ok(()) => taken += 1,
            Err(Errno::ENOMEM) => break,
            Err(error) => return Err(error.into()),
        }
        write_all(1, b"MiB\n");
    }
    Ok(taken.to_string())
}

/// Writes a file into each of the folders until there is no room: their size in KiB. The arguments
/// are the most, the name of the files, and the folders. Removes the files.
pub fn disk(arguments: &ProbeArguments) -> CallResult {
    let (most, name) = (arguments.number(0) * KIB, arguments.text(1));
    let mut written = 0;
    let mut result = Ok(());
    let paths = (2..arguments.count()).map(|index| {
        let path = format!("{}/{name}", arguments.text(index));
        CString::new(path).map_err(|_| Errno::EINVAL)
    });
    let paths = paths.collect::<Result<Vec<_>, _>>()?;
    for path in &paths {
        result = result.and(fill(path, most, &mut written));
    }
    for path in &paths {
        unlink(path);
    }
    result?;
    Ok((written / KIB).to_string())
}

/// Writes until there is no room, or `most` bytes are written. A folder that is missing or cannot be
/// written has no room.
fn fill(path: &CStr, most: usize, written: &mut usize) -> Result<(), Errno> {
    let file = match open(path, O_WRONLY | O_CREAT | O_TRUNC) {
        Ok(file) => file,
        Err(Errno::ENOENT | Errno::EACCES | Errno::EPERM | Errno::EROFS) => return Ok(()),
        Err(error) => return Err(error),
    };
    let piece = vec![b'x'; 64 * KIB];
    let result = loop {
        let left = most.saturating_sub(*written);
        if left == 0 {
            break Ok(());
        }
        match kernel!(WRITE, file, piece.as_slice(), left.min(piece.len())) {
            Ok(count) => *written += count,
            Err(Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    close(file);
    result
}
