//! Enforces memory limits without control groups: a thread samples the process trees of this
//! process' sandboxes ten times a second and kills the largest processes of a tree above its limit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use sandbox_host::lock;

use crate::cleanup::{TreeProcess, descendants};

/// The sampling interval.
const PERIOD: Duration = Duration::from_millis(100);

/// A process tree that is sampled while this value lives.
#[derive(Debug)]
pub(crate) struct MemoryWatch {
    agent: i32,
    limit: u64,
    kills: AtomicU64,
}

impl MemoryWatch {
    /// Limits the tree below the agent to `limit` bytes.
    pub(crate) fn start(agent: i32, limit: u64) -> std::io::Result<Arc<Self>> {
        let watch = Arc::new(Self {
            agent,
            limit,
            kills: AtomicU64::new(0),
        });
        let mut watched = lock(&WATCH_LIST);
        let pid = std::process::id();
        // The thread does not exist in a fork of the process that started it.
        if watched.owner != Some(pid) {
            std::thread::Builder::new()
                .name("sandbox-sampler".into())
                .spawn(sample_all)?;
            *watched = WatchList {
                owner: Some(pid),
                watches: Vec::new(),
            };
        }
        watched.watches.push(Arc::downgrade(&watch));
        Ok(watch)
    }

    /// How many processes were killed so far.
    pub(crate) fn kills(&self) -> u64 {
        self.kills.load(Ordering::Relaxed)
    }

    fn sample(&self) {
        let processes = descendants(self.agent);
        let mut sized = processes
            .iter()
            .map(|process| (memory(process.pid), process))
            .collect::<Vec<_>>();
        sized.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
        for process in excess(&sized, self.limit) {
            // Count before the kill, as the kernel does, so that the count includes every kill that
            // is already visible.
            self.kills.fetch_add(1, Ordering::Relaxed);
            process.send(rustix::process::Signal::KILL);
        }
    }
}

/// The largest processes, as many as must end for the rest to fit the limit. `sized` is sorted,
/// largest first.
fn excess<'a>(sized: &[(u64, &'a TreeProcess)], limit: u64) -> Vec<&'a TreeProcess> {
    let mut total = sized.iter().map(|(size, _)| size).sum::<u64>();
    let mut over = Vec::new();
    for (size, process) in sized {
        if total <= limit {
            break;
        }
        total -= size;
        over.push(*process);
    }
    over
}

struct WatchList {
    owner: Option<u32>,
    watches: Vec<Weak<MemoryWatch>>,
}

static WATCH_LIST: Mutex<WatchList> = Mutex::new(WatchList {
    owner: None,
    watches: Vec::new(),
});

fn sample_all() {
    loop {
        std::thread::sleep(PERIOD);
        let mut watched = lock(&WATCH_LIST);
        watched.watches.retain(|watch| watch.strong_count() > 0);
        if watched.watches.is_empty() {
            watched.owner = None;
            return;
        }
        let watches = watched.watches.clone();
        drop(watched);
        watches
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|watch| watch.sample());
    }
}

/// A process' own memory in bytes: anonymous, shared anonymous and swapped. 0 if it has ended.
fn memory(pid: i32) -> u64 {
    std::fs::read_to_string(format!("/proc/{pid}/status")).map_or(0, |status| in_status(&status))
}

fn in_status(status: &str) -> u64 {
    let counted = status.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        ["RssAnon", "RssShmem", "VmSwap"]
            .contains(&name)
            .then_some(value)
    });
    let kib = counted.filter_map(|value| value.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.sum::<u64>().saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use super::*;

    #[test]
    fn only_anonymous_shared_and_swapped_memory_counts() {
        let status = "Name:\tx\nVmRSS:\t 900 kB\nRssAnon:\t 100 kB\nRssFile:\t 700 kB\nRssShmem:\t 20 kB\nVmSwap:\t 3 kB\n";
        assert_eq!(in_status(status), 123 * 1024);
        assert_eq!(memory(i32::MAX), 0);
    }

    #[test]
    fn largest_process_of_a_tree_above_its_limit_is_killed() {
        let script = "sleep 60 & exec sleep 60";
        let script = format!("sh -c '{script}'; exit 0");
        let mut root = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::null())
            .spawn()
            .expect("a shell");
        let pid = i32::try_from(root.id()).expect("a small number");
        let watch = MemoryWatch::start(pid, 1).expect("watched");
        let deadline = Instant::now() + Duration::from_secs(10);
        while watch.kills() == 0 {
            assert!(Instant::now() < deadline, "nothing was killed");
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(watch);
        for process in descendants(pid) {
            process.send(rustix::process::Signal::KILL);
        }
        root.wait().expect("it ends");
    }
}
