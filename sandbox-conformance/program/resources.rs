//! Calls that use more than a limit.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::runtime::Errno;

use crate::call::{O_CREAT, O_RDONLY, O_TRUNC, O_WRONLY, close, now, open, pause, unlink};
use crate::call_result::{CallResult, Denied, done};
use crate::forking::{child, reap};
use crate::kernel;

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;
const SIGKILL: usize = 9;
const WNOHANG: usize = 1;
const WEXITED: usize = 4;
const WNOWAIT: usize = 0x0100_0000;

/// Maps this much memory and touches every page.
pub fn take(mib: usize) -> Result<(), Errno> {
    for _ in 0..mib {
        // Private, anonymous, readable and writable.
        let start = kernel!(MMAP, 0usize, MIB, 3usize, 0x22usize, -1, 0usize)?;
        for page in (0..MIB).step_by(PAGE) {
            // SAFETY: the mapping belongs to this function, is writable, and has this length.
            unsafe { ((start + page) as *mut u8).write_volatile(1) };
        }
    }
    Ok(())
}

pub fn memory(mib: usize) -> CallResult {
    take(mib)?;
    done()
}

/// The same amount in a memory file without a mapping.
pub fn memory_unmapped(mib: usize) -> CallResult {
    let file = kernel!(MEMFD_CREATE, c"probe", 0usize)? as i32;
    let piece = vec![1u8; MIB];
    for _ in 0..mib {
        let written = kernel!(WRITE, file, piece.as_slice(), piece.len())?;
        if written != piece.len() {
            return Err(Errno::ENOSPC.into());
        }
    }
    // Long enough for an observer that polls ten times a second.
    pause(300);
    close(file);
    done()
}

/// The same in several processes, each below the limit.
pub fn memory_of_children(count: usize, mib: usize) -> CallResult {
    let mut ends = [0i32; 2];
    kernel!(PIPE2, ends.as_mut_slice(), 0o2000000usize)?;
    let mut children = Vec::new();
    for _ in 0..count {
        children.push(child(|| {
            let answer: &[u8] = if take(mib).is_ok() { b"y" } else { b"n" };
            crate::call::write_all(ends[1], answer);
            pause(10_000);
        })?);
    }
    let mut answers = Vec::new();
    let mut died = false;
    while answers.len() < count && !died {
        if crate::call::poll(ends[0], 1, 50)? {
            let mut one = [0u8; 1];
            kernel!(READ, ends[0], one.as_mut_slice(), 1usize)?;
            answers.push(one[0]);
        } else {
            died = ended_child()?;
        }
    }
    if !died && !answers.contains(&b'n') {
        // Long enough for an observer that polls ten times a second.
        pause(300);
        died = ended_child()?;
    }
    for pid in &children {
        // These are children of this process, and exist until they are reaped.
        let _ = kernel!(KILL, *pid, SIGKILL);
    }
    for pid in &children {
        reap(*pid)?;
    }
    match (died || answers.len() < count, answers.contains(&b'n')) {
        (false, false) => done(),
        (false, true) => Err(Errno::ENOMEM.into()),
        (true, _) => Err(Denied::Word("children_killed")),
    }
}

/// Whether a child has ended. The child is not reaped.
fn ended_child() -> Result<bool, Errno> {
    let mut info = [0u64; 16];
    kernel!(
        WAITID,
        0usize,
        0usize,
        info.as_mut_slice(),
        WNOHANG | WEXITED | WNOWAIT,
        0usize
    )?;
    Ok(info[0] != 0)
}

fn fill_file(path: &CStr, bytes: usize) -> Result<(), Errno> {
    let file = open(path, O_WRONLY | O_CREAT | O_TRUNC)?;
    let piece = vec![b'x'; 65536];
    let mut left = bytes;
    let result = loop {
        if left == 0 {
            break Ok(());
        }
        match kernel!(WRITE, file, piece.as_slice(), left.min(piece.len())) {
            Ok(0) => break Err(Errno::ENOSPC),
            Ok(count) => left -= count,
            Err(error) => break Err(error),
        }
    };
    close(file);
    result
}

/// Writes a file of this many MiB and removes it.
pub fn fill(path: &CStr, mib: usize) -> CallResult {
    let result = fill_file(path, mib * MIB);
    unlink(path);
    result?;
    done()
}

/// Writes this many files of 1 MiB, and removes them.
pub fn fill_many(path: &str, mib: usize) -> CallResult {
    let name = |index: usize| CString::new(format!("{path}-{index}")).map_err(|_| Errno::EINVAL);
    let mut result = Ok(());
    for index in 0..mib {
        result = name(index).and_then(|name| fill_file(&name, MIB));
        if result.is_err() {
            break;
        }
    }
    for index in 0..mib {
        unlink(&name(index)?);
    }
    result?;
    done()
}

/// Holds this many descriptors open.
pub fn open_many(count: usize) -> CallResult {
    let first = open(c"/", O_RDONLY)?;
    for _ in 1..count {
        kernel!(DUP, first)?;
    }
    done()
}

/// Takes memory, and then processor time until the kernel has counted this many milliseconds.
/// Returns the counted microseconds, and the largest resident memory in KiB.
pub fn burn(milliseconds: usize, mib: usize) -> CallResult {
    take(mib)?;
    loop {
        // User and system time come first, as seconds and microseconds.
        let mut usage = [0usize; 18];
        kernel!(GETRUSAGE, 0usize, usage.as_mut_slice())?;
        let counted = (usage[0] + usage[2]) * 1_000_000 + usage[1] + usage[3];
        if counted >= milliseconds * 1000 {
            return Ok(format!("{counted},{}", usage[4]));
        }
        for _ in 0..10_000 {
            core::hint::spin_loop();
        }
    }
}

/// Keeps `count` processes busy. Succeeds if they got `percent` of one processor or more. On a busy
/// machine they may get less than one percent, so zero asks for nothing.
pub fn spin(count: usize, milliseconds: usize, percent: usize) -> CallResult {
    let start = now();
    let mut children = Vec::new();
    for _ in 0..count {
        children.push(child(|| while now() < start + milliseconds {})?);
    }
    for pid in children {
        reap(pid)?;
    }
    // User and system time come first, as seconds and microseconds.
    let mut usage = [0usize; 18];
    kernel!(GETRUSAGE, -1, usage.as_mut_slice())?;
    let busy = (usage[0] + usage[2]) * 1000 + (usage[1] + usage[3]) / 1000;
    let got = busy * 100 / (now() - start).max(1);
    crate::call::write_all(2, format!("percent={got}\n").as_bytes());
    if got >= percent {
        Ok(got.to_string())
    } else {
        Err(Denied::Word("throttled"))
    }
}
