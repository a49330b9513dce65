//! The end of a kept sandbox, after which nothing of it is left.

use alloc::collections::BTreeSet;

use crate::runtime::{
    Errno, RawFd, Result, fs,
    fs::{AT_FDCWD, AT_REMOVEDIR},
    path::{PathBuffer, terminated},
    process::reap,
    signal::{self, SIGKILL},
    time::sleep_microseconds,
};

use crate::program::{
    builtin::remove_tree,
    exec::Sweep,
    poll_set::{POLLIN, now, wait_for},
    procfs::Procfs,
};
use crate::protocol::keep::{Charge, files};

/// How long the agent's end may take after it was killed, milliseconds: with a process namespace, the end of everything.
const AGENT_EXIT_TIMEOUT_MS: u64 = 5000;

/// How often a control group is tried to be removed: a process that has just ended keeps its group for a moment.
const ATTEMPTS: u32 = 12;

/// Kills and removes everything; whether nothing is left.
pub(super) fn clean_up(agent: RawFd, plan: &Charge) -> bool {
    // It may have ended by itself.
    let _ = signal::send(agent, SIGKILL);
    let ended = wait_for(agent, POLLIN, Some(AGENT_EXIT_TIMEOUT_MS));
    reap_all();
    // What it leaves without a process namespace is ours: the kernel gives us every orphan.
    let gone = ended && (plan.own_processes || sweep());
    let mut removed = true;
    for group in &plan.groups {
        removed &= remove_group(group).is_ok();
    }
    gone && removed && remove_folder(&plan.folder).is_ok()
}

fn reap_all() {
    // Until nobody is left, or nobody has ended.
    while let Ok(Some(_)) = reap() {}
}

/// Kills every descendant, in at most three sweeps.
fn sweep() -> bool {
    let Ok(files) = Procfs::open() else {
        return false;
    };
    for _ in 0..3 {
        let mut sweep = Sweep::new();
        loop {
            if let Some(swept) = sweep.round(Some(&files), &BTreeSet::new()) {
                if swept.survivors == 0 {
                    return true;
                }
                break;
            }
            let _ = sleep_microseconds(sweep.next().saturating_sub(now()));
            reap_all();
        }
    }
    false
}

fn remove_group(group: &[u8]) -> Result<()> {
    let path = terminated(group)?;
    let mut pause = 500;
    let mut result = Ok(());
    for _ in 0..ATTEMPTS {
        result = match fs::unlink(AT_FDCWD, &path, AT_REMOVEDIR) {
            Err(Errno::ENOENT) => Ok(()),
            other => other,
        };
        if result.is_ok() {
            break;
        }
        let _ = sleep_microseconds(pause);
        pause = (pause * 2).min(200_000);
    }
    result
}

/// The record goes first, so that nobody takes a half-removed sandbox for one.
fn remove_folder(folder: &[u8]) -> Result<()> {
    let record = PathBuffer::concat(&[folder, b"/", files::RECORD.to_bytes()])?;
    match fs::unlink(AT_FDCWD, &record, 0) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(errno) => return Err(errno),
    }
    match remove_tree(folder) {
        Err(Errno::ENOENT) => Ok(()),
        other => other,
    }
}
