//! What a sandbox has on the host, and how it is ended and removed.

mod reaper;
mod tree;

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sandbox_agent::runtime::process::{WNOHANG, wait4};
use sandbox_agent::runtime::signal::{SIGKILL, SIGSTOP, send};
use sandbox_agent::runtime::{Errno, Pid};

use crate::attached::AttachedRecord;
use crate::cgroup::Group;
use crate::spawn::clone::Child;
use crate::subordinate::Range;

pub(crate) use tree::{TreeProcess, descendants, kill_group};

/// Time limit for killed processes of a sandbox to end. A supervisor grants its agent as much.
pub(crate) const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Everything a sandbox has on the host. Dropping it ends and removes all of it in the background.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    agent: Option<AgentProcess>,
    own_pid_namespace: bool,
    group: Option<Arc<Group>>,
    range: Option<Range>,
    folder: Option<PathBuf>,
    record: Option<AttachedRecord>,
}

/// The agent's process.
#[derive(Debug, Clone)]
pub(crate) struct AgentProcess {
    pub(crate) pid: Pid,
    pub(crate) pidfd: Arc<OwnedFd>,
}

impl Leftovers {
    /// Empty. `own_pid_namespace`: the agent is the first process of its own PID namespace, so its end
    /// ends every process.
    pub(crate) fn new(own_pid_namespace: bool) -> Self {
        let mut leftovers = Self::default();
        leftovers.own_pid_namespace = own_pid_namespace;
        leftovers
    }

    pub(crate) fn set_agent(&mut self, child: Child) {
        self.agent = Some(AgentProcess {
            pid: child.pid,
            pidfd: Arc::new(child.pidfd),
        });
    }

    pub(crate) fn set_group(&mut self, group: Option<Arc<Group>>) {
        self.group = group;
    }

    pub(crate) fn set_range(&mut self, range: Range) {
        self.range = Some(range);
    }

    /// A folder that is removed with the sandbox.
    pub(crate) fn set_folder(&mut self, folder: PathBuf) {
        self.folder = Some(folder);
    }

    /// A record that is removed with the sandbox.
    pub(crate) fn set_record(&mut self, record: AttachedRecord) {
        self.record = Some(record);
    }

    pub(crate) fn group(&self) -> Option<&Group> {
        self.group.as_deref()
    }

    pub(crate) fn shared_group(&self) -> Option<Arc<Group>> {
        self.group.clone()
    }

    pub(crate) fn range(&self) -> Option<&Range> {
        self.range.as_ref()
    }

    pub(crate) fn agent(&self) -> Option<&AgentProcess> {
        self.agent.as_ref()
    }

    /// Kills every process. Does not wait.
    pub(crate) fn kill(&self) {
        let Some(agent) = &self.agent else { return };
        if !self.own_pid_namespace {
            kill_tree(agent.pid.0, &agent.pidfd, self.group());
        }
        // The agent may have ended already.
        let _ = send(agent.pidfd.as_raw_fd(), SIGKILL);
    }

    /// Reaps the agent if it has ended. False while it runs.
    fn try_reap(&mut self) -> bool {
        let Some(agent) = &self.agent else {
            return true;
        };
        match wait4(agent.pid.0, WNOHANG) {
            Ok(None) => return false,
            // Another thread of this process reaped it.
            Ok(Some(_)) | Err(Errno::ECHILD) => {}
            Err(_) => return false,
        }
        self.agent = None;
        true
    }

    /// Kills, waits and removes. Blocks for up to [`KILL_TIMEOUT`] for the processes and half a second for
    /// the rest.
    pub(crate) fn destroy(&mut self) -> Result<(), String> {
        self.kill();
        let deadline = Instant::now() + KILL_TIMEOUT;
        while !self.try_reap() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!(
                    "processes did not end within {KILL_TIMEOUT:?} of SIGKILL"
                ));
            }
            self.wait_readable(left.min(Duration::from_millis(100)));
        }
        self.remove()
    }

    fn wait_readable(&self, longest: Duration) {
        let Some(agent) = &self.agent else { return };
        let mut polled = [PollFd::new(&agent.pidfd, PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: longest.as_secs().cast_signed(),
            tv_nsec: longest.subsec_nanos().into(),
        };
        // A signal only causes another check.
        let _ = poll(&mut polled, Some(&timeout));
    }

    /// Removes everything but processes. What could not be removed stays recorded for the next
    /// attempt.
    fn remove(&mut self) -> Result<(), String> {
        let mut left = Vec::new();
        if let Some(group) = &self.group {
            if !self.own_pid_namespace {
                tree::kill_group(group);
            }
            match group.remove() {
                Ok(()) => self.group = None,
                Err(cause) => left.push(cause.to_string()),
            }
        }
        if let Some(folder) = &self.folder {
            match crate::owned_folder::remove(folder) {
                Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                    left.push(format!("{}: {cause}", folder.display()));
                }
                _ => self.folder = None,
            }
        }
        self.range = None;
        self.record = None;
        if left.is_empty() {
            Ok(())
        } else {
            Err(left.join("; "))
        }
    }

    /// Whether killing the agent ends every process.
    pub(crate) fn ends_with_agent(&self) -> bool {
        self.own_pid_namespace
    }

    /// Removes everything without waiting. False if a process still runs or a group is still busy.
    pub(crate) fn try_finish(&mut self) -> bool {
        if !self.try_reap() {
            return false;
        }
        if self
            .group
            .as_ref()
            .is_some_and(|group| group.try_remove().is_err())
        {
            return false;
        }
        self.group = None;
        self.remove().is_ok()
    }

    /// Whether nothing is left to remove.
    pub(crate) fn is_empty(&self) -> bool {
        self.agent.is_none()
            && self.group.is_none()
            && self.range.is_none()
            && self.folder.is_none()
    }
}

/// Kills all descendants of an agent without a PID namespace, and every other process in the group.
pub(crate) fn kill_tree(agent: i32, pidfd: &OwnedFd, group: Option<&Group>) {
    // Descendants first: once the agent is dead, its orphans have another parent and cannot be
    // found. The agent is stopped so that it neither starts nor reports anything. It may have ended
    // already.
    let _ = send(pidfd.as_raw_fd(), SIGSTOP);
    tree::kill(agent, group);
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        if !self.is_empty() {
            self.kill();
            reaper::destroy_in_background(std::mem::take(self));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_removal_is_retried_and_reported_again() {
        let place = tempfile::tempdir().expect("a folder");
        let stuck = place.path().join("no-folder");
        std::fs::write(&stuck, "").expect("written");
        let mut leftovers = Leftovers::new(true);
        leftovers.set_folder(stuck.clone());
        for _ in 0..2 {
            let left = leftovers.destroy().expect_err("it is no folder");
            assert!(
                left.contains("no-folder") && !leftovers.is_empty(),
                "{left}"
            );
        }
        std::fs::remove_file(&stuck).expect("removed");
        leftovers.destroy().expect("nothing is left");
        assert!(leftovers.is_empty());
    }
}
