//! The processes below this one, as `/proc` tells them.

use std::collections::BTreeMap;
use std::fs;

/// A process, told from a later one with the same number by its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The process number.
    pub pid: i32,
    /// The number of its parent.
    pub parent: i32,
    /// When it started, in clock ticks since boot.
    pub start: u64,
    /// Ended, and not yet waited for.
    pub zombie: bool,
}

/// Every process below `ancestor`, in no order. One that ends meanwhile may be missing.
pub fn below(ancestor: i32) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for process in all() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = children.remove(&ancestor).unwrap_or_default();
    let mut next = 0;
    while next < found.len() {
        let below = children.remove(&found[next].pid).unwrap_or_default();
        found.extend(below);
        next += 1;
    }
    found
}

/// Every process whose real, effective, saved or file system user is `user`.
pub fn of_user(user: u32) -> Vec<Process> {
    all()
        .into_iter()
        .filter(|process| {
            fs::read_to_string(format!("/proc/{}/status", process.pid))
                .is_ok_and(|status| users(&status).any(|other| other == user))
        })
        .collect()
}

/// The command line of a process, for a reader; its name in parentheses where it has none.
pub fn describe(process: &Process) -> String {
    let folder = format!("/proc/{}", process.pid);
    let line = fs::read(format!("{folder}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    let text = if line.trim().is_empty() {
        let name = fs::read_to_string(format!("{folder}/comm")).unwrap_or_default();
        format!("({})", name.trim())
    } else {
        line.trim().chars().take(200).collect()
    };
    format!("process {} {}", process.pid, text.escape_debug())
}

fn all() -> Vec<Process> {
    // Without /proc nothing below works, cargo included; no processes is then the truth for us.
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))
        .collect()
}

/// Fields 3, 4 and 22 of proc(5): state, parent and start.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    // The name may hold spaces and parentheses; the last parenthesis ends it.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let start = fields.nth(22 - 5)?.parse().ok()?;
    Some(Process {
        pid,
        parent,
        start,
        zombie: matches!(state, "Z" | "X"),
    })
}

fn users(status: &str) -> impl Iterator<Item = u32> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|number| number.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn grandchildren_are_found_below_their_ancestor() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 30 & echo; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh");
        let mut line = [0];
        let stdout = shell.stdout.as_mut().expect("stdout");
        std::io::Read::read_exact(stdout, &mut line).expect("a line");
        let below = below(i32::try_from(std::process::id()).expect("pid"));
        let pid = i32::try_from(shell.id()).expect("pid");
        let child = below
            .iter()
            .find(|process| process.parent == pid)
            .expect("the sleep")
            .clone();
        assert!(!child.zombie && child.start > 0, "{child:?}");
        assert!(of_user(rustix::process::getuid().as_raw()).contains(&child));
        let signal = rustix::process::Signal::KILL;
        let raw = rustix::process::Pid::from_raw(child.pid).expect("pid");
        rustix::process::kill_process(raw, signal).expect("kill");
        shell.wait().expect("wait");
    }

    #[test]
    fn users_are_read_from_all_four_fields() {
        let status = "Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t5\t5\t5\n";
        assert_eq!(users(status).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(users("Name:\tx\n").count(), 0);
    }
}
