//! Calls on other processes, and programs that are hard to end.

use alloc::ffi::CString;
use alloc::format;
use alloc::vec::Vec;

use crate::runtime::Errno;

use crate::call::{O_RDWR, close, now, open, own_pid, pause, write_all};
use crate::call_result::{CallResult, Denied, done};
use crate::directory;
use crate::forking::{child, copy, reap};
use crate::kernel;

/// The visible processes.
pub fn visible() -> Result<Vec<i32>, Errno> {
    let mut found = Vec::new();
    directory::entries(c"/proc", |name, _| found.extend(name.parse::<i32>().ok()))?;
    Ok(found)
}

/// Whether another process has this text in its command line.
pub fn find(text: &str) -> CallResult {
    let own = own_pid() as i32;
    for pid in visible()?.into_iter().filter(|pid| *pid != own) {
        let Ok(path) = CString::new(format!("/proc/{pid}/cmdline")) else {
            continue;
        };
        if let Ok(line) = crate::files::content(&path)
            && line
                .windows(text.len())
                .any(|window| window == text.as_bytes())
        {
            return done();
        }
    }
    Err(Denied::Word("absent"))
}

/// The same, beside a child with this program's command line.
pub fn find_child(text: &str) -> CallResult {
    let pid = child(|| pause(5000))?;
    let result = find(text);
    kernel!(KILL, pid, 9usize)?;
    reap(pid)?;
    result
}

/// Sends SIGTERM to one process.
pub fn signal(pid: usize) -> CallResult {
    if pid < 2 {
        return Err(Denied::Word("nonsense"));
    }
    kernel!(KILL, pid, 15usize)?;
    done()
}

pub fn signal_child() -> CallResult {
    let pid = child(|| pause(5000))?;
    kernel!(KILL, pid, 15usize)?;
    reap(pid)?;
    done()
}

/// Ends a child by a descriptor of it.
pub fn signal_child_by_descriptor() -> CallResult {
    let pid = child(|| pause(5000))?;
    let descriptor = kernel!(PIDFD_OPEN, pid, 0usize)?;
    kernel!(PIDFD_SEND_SIGNAL, descriptor, 15usize, 0usize, 0usize)?;
    match reap(pid)? {
        15 => done(),
        _ => Err(Denied::Word("lost")),
    }
}

/// The parent process, or process 1 if the parent is not visible.
pub fn parent() -> usize {
    match kernel!(GETPPID) {
        Ok(0) | Err(_) => 1,
        Ok(pid) => pid,
    }
}

/// Attaches to the parent. The end of this program detaches.
pub fn trace_parent() -> CallResult {
    const PTRACE_SEIZE: usize = 0x4206;
    kernel!(PTRACE, PTRACE_SEIZE, parent(), 0usize, 0usize)?;
    done()
}

/// Opens the parent's memory for writing.
pub fn parent_memory() -> CallResult {
    let path = CString::new(format!("/proc/{}/mem", parent())).map_err(|_| Errno::EINVAL)?;
    close(open(&path, O_RDWR)?);
    done()
}

/// Sleeps. The arguments mark the process.
pub fn sleep(milliseconds: usize) -> CallResult {
    pause(milliseconds);
    done()
}

/// Prints a line, ignores every signal that can be ignored, and ends by itself after a while.
pub fn stubborn(milliseconds: usize) -> CallResult {
    write_all(1, b"before\n");
    let all = [usize::MAX];
    kernel!(RT_SIGPROCMASK, 0usize, all.as_slice(), 0usize, 8usize)?;
    let end = now() + milliseconds;
    while now() < end {
        pause(10);
    }
    done()
}

/// Leaves a process in its own session that is not a descendant, and ends at once. With `hold`,
/// that process keeps standard output and standard error open.
pub fn orphan(milliseconds: usize, hold: bool) -> CallResult {
    detach(|| linger(milliseconds, hold))?;
    done()
}

/// Starts `count` grandchildren in their own sessions, and waits as long as they do.
pub fn tree(count: usize, milliseconds: usize) -> CallResult {
    for _ in 0..count {
        detach(|| linger(milliseconds, true))?;
    }
    write_all(1, b"started\n");
    pause(milliseconds);
    done()
}

fn linger(milliseconds: usize, hold: bool) {
    if !hold {
        for descriptor in 0..3 {
            close(descriptor);
        }
    }
    let end = now() + milliseconds;
    while now() < end {
        pause(50);
    }
}

/// Runs `act` in a grandchild, in its own session.
fn detach(act: impl FnOnce()) -> Result<(), Errno> {
    let middle = child(|| {
        // This always succeeds for a process that leads no group.
        let _ = kernel!(SETSID);
        if let Ok(0) = copy() {
            act();
        }
    })?;
    reap(middle)?;
    Ok(())
}

/// Sends itself a signal.
pub fn raise(signal: usize) -> CallResult {
    let pid = own_pid();
    // A signal to oneself arrives before the call returns, if it is not blocked.
    kernel!(KILL, pid, signal)?;
    Err(Denied::Word("survived"))
}
