//! Removing a detached sandbox.

use alloc::collections::BTreeSet;

use crate::runtime::{
    Errno, RawFd, fs,
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

/// How long the agent may take to exit after SIGKILL, in milliseconds. In a PID namespace, this
/// includes all its processes.
const AGENT_EXIT_TIMEOUT_MS: u64 = 5000;

/// How often to try to remove a control group: a group stays busy for a moment after its last
/// process.
const ATTEMPTS: u32 = 12;

/// Kills and removes everything; returns whether nothing is left.
pub(super) fn clean_up(agent: RawFd, plan: &Charge) -> bool {
    // The agent may have exited already.
    let _ = signal::send(agent, SIGKILL);
    let ended = wait_for(agent, POLLIN, Some(AGENT_EXIT_TIMEOUT_MS));
    reap_all();
    // Without a PID namespace, this process inherits all orphans.
    let gone = ended && (plan.own_processes || sweep());
    let mut removed = true;
    for group in &plan.groups {
        removed &= remove_group(group).is_ok();
    }
    gone && removed && remove_folder(&plan.folder).is_ok()
}

fn reap_all() {
    // Until no child is left, or none has exited.
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

fn remove_group(group: &[u8]) -> Result<(), Errno> {
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

/// Removes the record first, so that clients do not find a partly removed sandbox.
fn remove_folder(folder: &[u8]) -> Result<(), Errno> {
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
