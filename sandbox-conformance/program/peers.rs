//! A program, and another program of the same user that changes its limits.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::runtime::Errno;

use crate::call::{O_CREAT, O_WRONLY, close, now, open, own_pid, pause, write_all};
use crate::call_result::{CallResult, Denied, done};
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

/// Changes limits, priorities, processors and classes of the program that wrote the file, and its
/// own by its number.
pub fn disturb(path: &CStr) -> CallResult {
    let other = other(path)?;
    let own = own_pid();
    let others = CHANGES.iter().chain(&OF_OTHERS);
    let tries = others.map(|change| (change, other));
    first(tries.chain(CHANGES.iter().map(|change| (change, own))))
}

/// Changes the same of this process, as number 0. The default scheduling class may be set by
/// number.
pub fn disturb_itself() -> CallResult {
    scheduling_class(own_pid(), OTHER)?;
    for (_, change) in &CHANGES {
        change(0)?;
    }
    done()
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

/// What changes a process, and the call.
type Change = (&'static str, fn(usize) -> Result<usize, Errno>);

const CHANGES: [Change; 6] = [
    ("limit", lower_limit),
    ("priority", |pid| kernel!(SETPRIORITY, PROCESS, pid, LEAST)),
    ("processors", set_processors),
    ("parameter", |pid| {
        kernel!(SCHED_SETPARAM, pid, [0i32].as_slice())
    }),
    ("class of input", |pid| {
        kernel!(IOPRIO_SET, IOPRIO_PROCESS, pid, IDLE_INPUT)
    }),
    // Other classes cannot be left again.
    ("class", |pid| scheduling_class(pid, IDLE)),
];

/// What no process needs, also not with its own number. On the host one of the changes above
/// succeeds first, because these would change every process of the user.
const OF_OTHERS: [Change; 11] = [
    ("priority of its group", |pid| {
        kernel!(SETPRIORITY, GROUP, group(pid), LEAST)
    }),
    ("priority of its user", |_| {
        let user = kernel!(GETUID)?;
        kernel!(SETPRIORITY, USER, user, LEAST)
    }),
    ("priority of this user", |_| {
        kernel!(SETPRIORITY, USER, 0usize, LEAST)
    }),
    ("class of input of its group", |pid| {
        kernel!(IOPRIO_SET, IOPRIO_GROUP, group(pid), IDLE_INPUT)
    }),
    ("class of input of its user", |_| {
        let user = kernel!(GETUID)?;
        kernel!(IOPRIO_SET, IOPRIO_USER, user, IDLE_INPUT)
    }),
    ("attributes", |pid| {
        let attributes = [48u32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        kernel!(SCHED_SETATTR, pid, attributes.as_slice(), 0usize)
    }),
    ("pages", |pid| {
        let nodes = [1u64];
        let nodes = nodes.as_slice();
        kernel!(MIGRATE_PAGES, pid, 64usize, nodes, nodes)
    }),
    ("places of pages", |pid| {
        kernel!(MOVE_PAGES, pid, 0usize, 0usize, 0usize, 0usize, 2usize)
    }),
    ("comparison", |pid| {
        kernel!(KCMP, pid, own_pid(), 0usize, 0usize, 0usize)
    }),
    ("descriptors", |pid| {
        let process = kernel!(PIDFD_OPEN, pid, 0usize)?;
        kernel!(PIDFD_GETFD, process, 0usize, 0usize)
    }),
    ("advice", |pid| {
        let process = kernel!(PIDFD_OPEN, pid, 0usize)?;
        kernel!(PROCESS_MADVISE, process, 0usize, 0usize, COLD, 0usize)
    }),
];

const LEAST: usize = 19;
const GROUP: usize = 1;
const USER: usize = 2;
const IOPRIO_GROUP: usize = 2;
const IOPRIO_USER: usize = 3;
const IDLE_INPUT: usize = 3 << 13;
const OTHER: usize = 0;
const IDLE: usize = 5;
const COLD: usize = 20;

/// The group of a process; the process itself if its group is in another namespace.
fn group(pid: usize) -> usize {
    match kernel!(GETPGID, pid) {
        Ok(0) | Err(_) => pid,
        Ok(group) => group,
    }
}

fn lower_limit(pid: usize) -> Result<usize, Errno> {
    let mut limits = [0u64; 2];
    kernel!(
        PRLIMIT64,
        0usize,
        RLIMIT_STACK,
        0usize,
        limits.as_mut_slice()
    )?;
    limits[0] -= 4096;
    kernel!(PRLIMIT64, pid, RLIMIT_STACK, limits.as_slice(), 0usize)
}

/// Sets those that this process may use.
fn set_processors(pid: usize) -> Result<usize, Errno> {
    let mut processors = [0u64; 128];
    let length = kernel!(
        SCHED_GETAFFINITY,
        0usize,
        1024usize,
        processors.as_mut_slice()
    )?;
    kernel!(SCHED_SETAFFINITY, pid, length, processors.as_slice())
}

fn scheduling_class(pid: usize, class: usize) -> Result<usize, Errno> {
    kernel!(SCHED_SETSCHEDULER, pid, class, [0i32].as_slice())
}

/// The name of the first change that is made; without one, the kernel's answer to each.
fn first<'a>(changes: impl Iterator<Item = (&'a Change, usize)>) -> CallResult {
    let mut refusals = Vec::new();
    for ((name, change), pid) in changes {
        match change(pid) {
            Ok(_) => return Ok(String::from(*name)),
            Err(error) => refusals.push(error),
        }
    }
    Err(Denied::Errors(refusals))
}
