//! Memory limit without control groups: every 100 ms, sums up the memory of the agent's descendants
//! and kills the largest until the rest is within the limit.

use alloc::vec::Vec;

use crate::runtime::{
    Errno, Pid,
    directory::Directory,
    fs, io,
    path::PathBuffer,
    process,
    signal::{self, SIGKILL},
};

use super::files::MemoryKillsFile;
use crate::program::{
    poll_set::{MonotonicMicros, after, now},
    procfs::Procfs,
};

/// Sampling interval, in milliseconds.
const PERIOD_MS: u64 = 100;

#[derive(Debug)]
pub(super) struct Sampler {
    limit: u64,
    kills: MemoryKillsFile,
    procfs: Procfs,
    next: MonotonicMicros,
}

/// Memory of a descendant of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProcessMemory {
    pid: Pid,
    parent: Pid,
    bytes: u64,
}

impl Sampler {
    pub(super) fn new(limit: u64, kills: MemoryKillsFile) -> Result<Self, Errno> {
        Ok(Self {
            limit,
            kills,
            procfs: Procfs::open()?,
            next: now(),
        })
    }

    /// Time until the next sample, in microseconds.
    pub(super) fn pause(&self) -> u64 {
        self.next.saturating_sub(now())
    }

    /// Takes a sample if it is due.
    pub(super) fn sample(&mut self) {
        if now() < self.next {
            return;
        }
        self.next = after(now(), PERIOD_MS);
        let mut processes = self.processes();
        for target in largest_above_limit(&mut processes, self.limit) {
            self.kill(target);
        }
    }

    /// All descendants of the agent, which is this process's child. The agent's own memory does not
    /// count.
    fn processes(&self) -> Vec<ProcessMemory> {
        let mut processes = Vec::<ProcessMemory>::new();
        let mut parents = self.children(process::current());
        while let Some(parent) = parents.pop() {
            for pid in self.children(parent) {
                if processes.iter().all(|known| known.pid != pid) {
                    processes.push(ProcessMemory {
                        pid,
                        parent,
                        bytes: self.memory(pid),
                    });
                    parents.push(pid);
                }
            }
        }
        processes
    }

    /// The children of all threads of a process; empty if it has ended.
    fn children(&self, parent: Pid) -> Vec<Pid> {
        let mut children = Vec::new();
        let mut digits = [0; 20];
        let number = crate::runtime::path::decimal(parent.0.unsigned_abs().into(), &mut digits);
        let folder = PathBuffer::concat(&[number, b"/task"]).and_then(|path| {
            let flags = fs::O_RDONLY | fs::O_DIRECTORY | fs::O_CLOEXEC;
            fs::open_at(&self.procfs, &path, flags, 0)
        });
        let Ok(folder) = folder else { return children };
        let mut threads = Directory::new(&folder);
        while let Ok(Some(thread)) = threads.next_entry() {
            let name = thread.name.to_bytes();
            if !name.first().is_some_and(u8::is_ascii_digit) {
                continue;
            }
            let list = PathBuffer::concat(&[name, b"/children"])
                .and_then(|path| fs::open_at(&folder, &path, fs::O_RDONLY | fs::O_CLOEXEC, 0));
            let mut text = Vec::new();
            if list.is_ok_and(|list| io::read_to_end(&list, &mut text, MAX_CHILD_LIST).is_ok()) {
                children.extend(numbers(&text));
            }
        }
        children
    }

    /// Private memory of a process in bytes: anonymous, shared anonymous and swapped. 0 if it has
    /// ended.
    fn memory(&self, pid: Pid) -> u64 {
        let mut digits = [0; 20];
        let number = crate::runtime::path::decimal(pid.0.unsigned_abs().into(), &mut digits);
        let mut text = [0; 4096];
        let read = PathBuffer::concat(&[number, b"/status"])
            .and_then(|path| fs::open_at(&self.procfs, &path, fs::O_RDONLY | fs::O_CLOEXEC, 0))
            .and_then(|file| io::read(&file, &mut text));
        read.map_or(0, |count| private_bytes(&text[..count]))
    }

    /// Kills a process, if its PID still belongs to the same parent.
    fn kill(&mut self, target: ProcessMemory) {
        let Ok(pidfd) = process::open_pidfd(target.pid) else {
            return;
        };
        if self.children(target.parent).contains(&target.pid) {
            // Counts first, like the kernel. The count is informative; a failure must not prevent
            // the kill.
            let _ = self.kills.add();
            // An error means that it has ended.
            let _ = signal::send(&pidfd, SIGKILL);
        }
    }
}

/// The largest list of children, in bytes.
const MAX_CHILD_LIST: usize = 1 << 20;

/// The largest processes, as many as needed for the rest to be within the limit.
fn largest_above_limit(processes: &mut [ProcessMemory], limit: u64) -> Vec<ProcessMemory> {
    processes.sort_unstable_by_key(|process| core::cmp::Reverse(process.bytes));
    let mut total = processes.iter().map(|process| process.bytes).sum::<u64>();
    let mut excess = Vec::new();
    for process in processes {
        if total <= limit {
            break;
        }
        total -= process.bytes;
        excess.push(*process);
    }
    excess
}

fn numbers(text: &[u8]) -> impl Iterator<Item = Pid> + '_ {
    text.split(u8::is_ascii_whitespace)
        .filter_map(|word| core::str::from_utf8(word).ok()?.parse().ok().map(Pid))
}

fn private_bytes(text: &[u8]) -> u64 {
    let kib = text.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at(colon);
        let counted = [&b"RssAnon"[..], b"RssShmem", b"VmSwap"].contains(&name);
        let number = core::str::from_utf8(&value[1..])
            .ok()?
            .trim()
            .strip_suffix(" kB")?;
        counted.then(|| number.parse::<u64>().ok()).flatten()
    });
    kib.sum::<u64>().saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_memory_counts_and_file_pages_do_not() {
        let status = b"Name:\tx\nVmRSS:\t 900 kB\nRssAnon:\t 100 kB\nRssFile:\t 700 kB\nRssShmem:\t 20 kB\nVmSwap:\t 3 kB\n";
        assert_eq!(private_bytes(status), 123 * 1024);
        assert_eq!(private_bytes(b"RssAnon:\tmuch\n\n:\n"), 0);
    }

    #[test]
    fn largest_processes_are_killed_until_the_rest_fits() {
        let sized = |pid, bytes| ProcessMemory {
            pid: Pid(pid),
            parent: Pid(1),
            bytes,
        };
        let mut processes = [sized(1, 10), sized(2, 50), sized(3, 30)];
        let pids =
            |excess: Vec<ProcessMemory>| excess.iter().map(|entry| entry.pid.0).collect::<Vec<_>>();
        assert_eq!(pids(largest_above_limit(&mut processes, 90)), []);
        assert_eq!(pids(largest_above_limit(&mut processes, 40)), [2]);
        assert_eq!(pids(largest_above_limit(&mut processes, 5)), [2, 3, 1]);
    }

    #[test]
    fn child_lists_are_parsed() {
        assert_eq!(numbers(b"12 7 \n").collect::<Vec<_>>(), [Pid(12), Pid(7)]);
        assert_eq!(numbers(b"").count(), 0);
    }
}
