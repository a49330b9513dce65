//! Memory that the kernel holds for a process and that no process has mapped, and files without a name.

use alloc::vec;
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::runtime::{Errno, Result};

use crate::call::{O_CREAT, O_EXCL, O_NONBLOCK, O_WRONLY, open, pause, unlink};
use crate::kernel;
use crate::said::{Said, done};

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;
const F_SETPIPE_SZ: usize = 1031;
const AF_UNIX: usize = 1;
const SOCK_STREAM: usize = 1;
const SOL_SOCKET: usize = 1;
const SO_SNDBUF: usize = 7;
const IPC_CREAT: usize = 0o1000;
const IPC_EXCL: usize = 0o2000;

/// As long as a look from outside takes that comes ten times a second.
const LOOK: usize = 300;

/// Fills pairs of descriptors until so many MiB are held in them. The descriptors stay open until the program ends.
fn fill_pairs(mib: usize, pair: fn() -> Result<[i32; 2]>) -> Said {
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

pub fn pipes(mib: usize) -> Said {
    fill_pairs(mib, || {
        let mut ends = [0i32; 2];
        kernel!(PIPE2, ends.as_mut_slice(), O_NONBLOCK)?;
        // Where it may not be as large it stays as it is.
        let _ = kernel!(FCNTL, ends[1], F_SETPIPE_SZ, MIB);
        Ok(ends)
    })
}

pub fn sockets(mib: usize) -> Said {
    fill_pairs(mib, || {
        let mut ends = [0i32; 2];
        let kind = SOCK_STREAM | O_NONBLOCK;
        kernel!(SOCKETPAIR, AF_UNIX, kind, 0usize, ends.as_mut_slice())?;
        let size = [MIB as i32];
        // Where it may not be as large it is as large as it may be.
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

/// Makes a System V segment of so many MiB, touches every page of it, and leaves it there.
pub fn segment(key: usize, mib: usize) -> Said {
    let flags = IPC_CREAT | IPC_EXCL | 0o666;
    let segment = kernel!(SHMGET, key, mib * MIB, flags)?;
    let start = kernel!(SHMAT, segment, 0usize, 0usize)?;
    for page in (0..mib * MIB).step_by(PAGE) {
        // SAFETY: the segment is attached here, can be written, and is as long as this.
        unsafe { ((start + page) as *mut u8).write_volatile(1) };
    }
    pause(LOOK);
    done()
}

/// Writes so many files of 1 MiB, each of which loses its name before it is written, and holds all of them open.
pub fn fill_unlinked(path: &CStr, mib: usize) -> Said {
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
