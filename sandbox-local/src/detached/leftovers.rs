//! Ends and removes sandboxes whose supervisor could not: it was killed, or the machine was
//! restarted.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};
use sandbox_agent::protocol::keep::files;

use super::folder::{SandboxEntry, name_of, open_lock};
use super::record::LocalRecord;
use crate::cgroup::Group;
use crate::cleanup::{KILL_TIMEOUT, kill_group, kill_tree};
use crate::owned_folder;

/// Ends and removes everything of a sandbox without a supervisor. Does nothing if another process
/// is removing it.
///
/// # Errors
///
/// What could not be removed.
pub(super) fn remove_all(entry: &SandboxEntry) -> Result<(), String> {
    let lock = match open_lock(&entry.folder) {
        Ok(lock) => Some(lock),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => None,
        Err(cause) => return Err(with_path(&entry.folder, &cause)),
    };
    if let Some(lock) = &lock {
        match flock(lock.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            // A supervisor, or another process that is removing it.
            Err(Errno::WOULDBLOCK) => return Ok(()),
            Err(errno) => return Err(with_path(&entry.folder, &errno.into())),
        }
    }
    if let Some(Ok(record)) = &entry.record
        && record.parts.is_valid_here()
    {
        end_processes(record)?;
    }
    remove_folder(&entry.folder)
}

fn end_processes(record: &LocalRecord) -> Result<(), String> {
    let group = Group::existing(&record.parts.groups, None);
    // The process id may have been reused: it is the agent only if the start time matches.
    if let Some(agent) = record.parts.open_agent() {
        if !record.parts.own_processes {
            kill_tree(record.parts.agent.pid, &agent, Some(&group));
        }
        // The agent may have ended already.
        let _ = pidfd_send_signal(&agent, Signal::KILL);
        if !wait_for_exit(&agent, KILL_TIMEOUT) {
            return Err(format!(
                "processes did not end within {KILL_TIMEOUT:?} of SIGKILL"
            ));
        }
    }
    if !record.parts.own_processes {
        kill_group(&group);
    }
    group.take_ownership();
    group.remove().map_err(|cause| cause.to_string())
}

/// Waits for a process to end, which need not be a child. Returns false on timeout.
pub(super) fn wait_for_exit(process: &OwnedFd, longest: Duration) -> bool {
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: longest.as_secs().cast_signed(),
        tv_nsec: longest.subsec_nanos().into(),
    };
    matches!(poll(&mut polled, Some(&timeout)), Ok(1..))
}

/// Removes the record first, so that a half-removed sandbox is not taken for a complete one.
fn remove_folder(folder: &Path) -> Result<(), String> {
    let record = folder.join(name_of(files::RECORD));
    for removed in [std::fs::remove_file(&record), owned_folder::remove(folder)] {
        match removed {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                return Err(with_path(folder, &cause));
            }
            _ => {}
        }
    }
    Ok(())
}

fn with_path(path: &Path, cause: &std::io::Error) -> String {
    format!("{}: {cause}", path.display())
}
