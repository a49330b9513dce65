//! Memory that the kernel holds for a process without a mapping, and files without a name.

use alloc::vec;
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::runtime::Errno;

use crate::call::{O_CREAT, O_EXCL, O_NONBLOCK, O_WRONLY, open, pause, unlink};
use crate::call_result::{CallResult, done};
use crate::kernel;

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;
const F_SETPIPE_SZ: usize = 1031;
const AF_UNIX: usize = 1;
const SOCK_STREAM: usize = 1;
const SOL_SOCKET: usize = 1;
const SO_SNDBUF: usize = 7;
const IPC_CREAT: usize = 0o1000;
const IPC_EXCL: usize = 0o2000;

/// Long enough for an observer that polls ten times a second.
const LOOK: usize = 300;

/// Fills pairs of descriptors with this many MiB in total. They stay open until the program ends.
fn fill_pairs(mib: usize, pair: fn() -> Result<[i32; 2], Errno>) -> CallResult {
    let piece = vec![1u8; 65536];
    let mut held = 0;
    while held < mib * MIB {
        let [_, to] = pair()?;
        loop {
            match kernel!(WRITE, to, piece.as_slice(), piece.len()) {
                Ok(count) => held += count,
                Err(Errno::EAGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
    }
    pause(LOOK);
    done()
}

pub fn pipes(mib: usize) -> CallResult {
    fill_pairs(mib, || {
        let mut ends = [0i32; 2];
        kernel!(PIPE2, ends.as_mut_slice(), O_NONBLOCK)?;
        // If the kernel refuses, the size stays as it is.
        let _ = kernel!(FCNTL, ends[1], F_SETPIPE_SZ, MIB);
        Ok(ends)
    })
}

pub fn sockets(mib: usize) -> CallResult {
    fill_pairs(mib, || {
        let mut ends = [0i32; 2];
        let kind = SOCK_STREAM | O_NONBLOCK;
        kernel!(SOCKETPAIR, AF_UNIX, kind, 0usize, ends.as_mut_slice())?;
        let size = [MIB as i32];
        // If the kernel refuses, the buffer has its maximum size.
        let _ = kernel!(
            SETSOCKOPT,
            ends[1],
            SOL_SOCKET,
            SO_SNDBUF,
            size.as_slice(),
            4usize
        );
        Ok(ends)
    })
}

/// Creates a System V segment of this many MiB, touches each page, and leaves the segment there.
pub fn segment(key: usize, mib: usize) -> CallResult {
    let flags = IPC_CREAT | IPC_EXCL | 0o666;
    let segment = kernel!(SHMGET, key, mib * MIB, flags)?;
    let start = kernel!(SHMAT, segment, 0usize, 0usize)?;
    for page in (0..mib * MIB).step_by(PAGE) {
        // SAFETY: the segment is attached here, is writable, and has this length.
        unsafe { ((start + page) as *mut u8).write_volatile(1) };
    }
    pause(LOOK);
    done()
}

/// Creates this many open files, unlinks each, and writes 1 MiB into each.
pub fn fill_unlinked(path: &CStr, mib: usize) -> CallResult {
    let piece = vec![b'x'; 65536];
    let mut files = Vec::new();
    for _ in 0..mib {
        let file = open(path, O_WRONLY | O_CREAT | O_EXCL)?;
        unlink(path);
        files.push(file);
        let mut left = MIB;
        while left > 0 {
            match kernel!(WRITE, file, piece.as_slice(), left.min(piece.len()))? {
                0 => return Err(Errno::ENOSPC.into()),
                count => left -= count,
            }
        }
    }
    done()
}
