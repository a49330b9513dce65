//! Kills a process tree that has no PID namespace.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::cgroup::Group;

/// A process of a tree, held by a pidfd so that its process id cannot be reused unnoticed.
#[derive(Debug)]
pub(crate) struct TreeProcess {
    pub(crate) pid: i32,
    pidfd: OwnedFd,
}

impl TreeProcess {
    /// Opens the process with this id. The caller must check again that it is the intended one.
    fn hold(pid: i32) -> Option<Self> {
        let pidfd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        Some(Self { pid, pidfd })
    }

    /// Sends a signal. Does nothing if the process has ended.
    pub(crate) fn send(&self, signal: Signal) {
        if let Err(errno) = pidfd_send_signal(&self.pidfd, signal)
            && errno != rustix::io::Errno::SRCH
        {
            tracing::warn!(pid = self.pid, ?signal, %errno, "a signal could not be sent to a process of a sandbox");
        }
    }

    /// Waits for the end of the process, whether or not its parent has reaped it. False on timeout.
    fn wait(&self, longest: Duration) -> bool {
        let mut polled = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: longest.as_secs().cast_signed(),
            tv_nsec: longest.subsec_nanos().into(),
        };
        matches!(poll(&mut polled, Some(&timeout)), Ok(1..))
    }
}

/// How often to search a tree for processes that were started meanwhile.
const ROUNDS: usize = 100;

/// Every process below `root` that the kernel shows now.
pub(crate) fn descendants(root: i32) -> Vec<TreeProcess> {
    let mut found: Vec<TreeProcess> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for pid in children(parent) {
            if found.iter().any(|process| process.pid == pid) {
                continue;
            }
            let Some(process) = TreeProcess::hold(pid) else {
                continue;
            };
            // The id could have been reused before it was opened, so check it again. A zombie keeps
            // its id until it is reaped but has no children.
            if children(parent).contains(&pid) && !process.wait(Duration::ZERO) {
                parents.push(pid);
                found.push(process);
            }
        }
    }
    found
}

fn children(parent: i32) -> Vec<i32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{parent}/task")) else {
        return Vec::new();
    };
    let lists = threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let text = lists.collect::<Vec<_>>().join(" ");
    text.split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// Kills everything below the agent, which is the subreaper of its descendants, and everything in
/// the group. Stopped processes start nothing, so the tree shrinks with each round.
pub(super) fn kill(agent: i32, group: Option<&Group>) {
    for _ in 0..ROUNDS {
        let processes = descendants(agent);
        if processes.is_empty() {
            break;
        }
        for signal in [Signal::STOP, Signal::KILL] {
            processes.iter().for_each(|process| process.send(signal));
        }
        wait_for_ends(&processes);
    }
    if let Some(group) = group {
        kill_group(group);
    }
}

/// Kills every process of a group, including the agent.
pub(crate) fn kill_group(group: &Group) {
    if group.kill() {
        return;
    }
    for _ in 0..ROUNDS {
        let processes = group.processes();
        if processes.is_empty() {
            return;
        }
        let held = processes
            .into_iter()
            .filter_map(TreeProcess::hold)
            .collect::<Vec<_>>();
        let members = group.processes();
        for process in held.iter().filter(|process| members.contains(&process.pid)) {
            process.send(Signal::KILL);
        }
        wait_for_ends(&held);
    }
}

/// Waits up to 20 ms for all processes to end.
fn wait_for_ends(processes: &[TreeProcess]) {
    let deadline = Instant::now() + Duration::from_millis(20);
    for process in processes {
        process.wait(deadline.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn whole_tree_except_its_root_is_killed() {
        let script = "sh -c 'sleep 60 & sleep 60' & echo ready; wait; echo waited; read line";
        let mut root = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let pid = i32::try_from(root.id()).expect("a small number");
        let deadline = Instant::now() + Duration::from_secs(10);
        while descendants(pid).len() < 3 {
            assert!(Instant::now() < deadline, "the tree did not grow");
            std::thread::sleep(Duration::from_millis(5));
        }
        kill(pid, None);
        assert_eq!(descendants(pid).len(), 0);
        assert!(matches!(root.try_wait(), Ok(None)), "the root lives");
        drop(root.stdin.take());
        root.wait().expect("it ends by itself");
    }
}
