//! A program, and another program of the same user that changes its limits.

use alloc::format;
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::runtime::Errno;

use crate::call::{O_CREAT, O_WRONLY, close, now, open, own_pid, pause, write_all};
use crate::call_result::{CallResult, Denied, any, done};
use crate::kernel;

const RLIMIT_FSIZE: usize = 1;
const RLIMIT_STACK: usize = 3;
const PROCESS: usize = 0;
const IOPRIO_PROCESS: usize = 1;

/// The properties that another process could change, as the kernel reports them.
fn state() -> Result<Vec<u64>, Errno> {
    let mut state = Vec::new();
    for limit in [RLIMIT_FSIZE, RLIMIT_STACK] {
        let mut limits = [0u64; 2];
        kernel!(PRLIMIT64, 0usize, limit, 0usize, limits.as_mut_slice())?;
        state.extend(limits);
    }
    let mut processors = [0u64; 128];
    kernel!(
        SCHED_GETAFFINITY,
        0usize,
        1024usize,
        processors.as_mut_slice()
    )?;
    state.extend(processors);
    state.push(kernel!(GETPRIORITY, PROCESS, 0usize)? as u64);
    state.push(kernel!(SCHED_GETSCHEDULER, 0usize)? as u64);
    state.push(kernel!(IOPRIO_GET, IOPRIO_PROCESS, 0usize)? as u64);
    Ok(state)
}

/// Writes its process id to a file, waits, and reports whether its properties are unchanged.
pub fn undisturbed(path: &CStr, milliseconds: usize) -> CallResult {
    let before = state()?;
    let file = open(path, O_WRONLY | O_CREAT)?;
    write_all(file, format!("{}\n", own_pid()).as_bytes());
    close(file);
    let end = now() + milliseconds;
    while now() < end {
        pause(50);
    }
    match state()? == before {
        true => done(),
        false => Err(Denied::Word("changed")),
    }
}

/// Changes limits, priorities and the scheduling class of the program that wrote the file.
pub fn disturb(path: &CStr) -> CallResult {
    change(other(path)?)
}

/// The same on this process.
pub fn disturb_itself() -> CallResult {
    change(0)
}

/// Reads the process id that [`undisturbed`] writes.
fn other(path: &CStr) -> Result<usize, Errno> {
    for _ in 0..200 {
        if let Ok(text) = crate::files::content(path)
            && let Some(digits) = text.strip_suffix(b"\n")
        {
            let number = core::str::from_utf8(digits).ok();
            return number
                .and_then(|text| text.parse().ok())
                .ok_or(Errno::EINVAL);
        }
        pause(20);
    }
    Err(Errno::ETIMEDOUT)
}

fn change(pid: usize) -> CallResult {
    const IDLE: usize = 5;
    const IDLE_INPUT: usize = 3 << 13;
    let mut limits = [0u64; 2];
    kernel!(
        PRLIMIT64,
        0usize,
        RLIMIT_STACK,
        0usize,
        limits.as_mut_slice()
    )?;
    limits[0] -= 4096;
    let priority = [0i32];
    any([
        kernel!(PRLIMIT64, pid, RLIMIT_STACK, limits.as_slice(), 0usize),
        kernel!(SETPRIORITY, PROCESS, pid, 19usize),
        kernel!(SCHED_SETSCHEDULER, pid, IDLE, priority.as_slice()),
        kernel!(IOPRIO_SET, IOPRIO_PROCESS, pid, IDLE_INPUT),
    ])
}
