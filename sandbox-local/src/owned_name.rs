//! Names of control groups and folders. Each contains its owner, so that leftovers of a killed
//! process can be recognized.

use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use sandbox_host::process::{namespace, start_of};

/// A process of this host, so that it cannot be mistaken for a later one with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The process namespace that `pid` is a number of.
    pub(crate) namespace: u64,
    pub(crate) pid: u32,
    /// When it started, in ticks since boot.
    pub(crate) start: u64,
}

impl Owner {
    /// This process.
    pub(crate) fn current() -> Self {
        static SEEN: OnceLock<Owner> = OnceLock::new();
        let pid = std::process::id();
        // 0 is no namespace's number: without procfs this process is unknown, and so nobody takes
        // it for gone.
        let look = || {
            let (namespace, start) = namespace().zip(start_of(pid)).unwrap_or((0, 0));
            Self {
                namespace,
                pid,
                start,
            }
        };
        let seen = SEEN.get_or_init(look);
        // A fork of the process that looked is another owner.
        if seen.pid == pid {
            seen.clone()
        } else {
            look()
        }
    }

    pub(crate) fn prefix(&self) -> String {
        format!("sandbox-{:x}-{}-{}-", self.namespace, self.pid, self.start)
    }

    /// Whose a name is; `None` where it is none of ours.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let mut fields = name.strip_prefix("sandbox-")?.split('-');
        let owner = Self {
            namespace: u64::from_str_radix(fields.next()?, 16).ok()?,
            pid: fields.next()?.parse().ok()?,
            start: fields.next()?.parse().ok()?,
        };
        fields.next()?.parse::<u64>().ok()?;
        fields.next().is_none().then_some(owner)
    }

    /// One that is gone, to test with.
    #[cfg(test)]
    pub(crate) fn dead() -> Self {
        let alive = Self::current();
        Self {
            start: alive.start + 1,
            ..alive
        }
    }

    /// Whether the process is known to be gone. In doubt it is not: its namespace may be another
    /// one than ours.
    pub(crate) fn is_gone(&self) -> bool {
        namespace() == Some(self.namespace) && start_of(self.pid) != Some(self.start)
    }
}

/// Paths in `parent` whose names contain an owner that is gone. Empty if `parent` cannot be read.
pub(crate) fn leftovers_in(parent: &Path) -> impl Iterator<Item = PathBuf> {
    let is_gone = |entry: &DirEntry| {
        let owner = entry.file_name().to_str().and_then(Owner::of);
        owner.is_some_and(|owner| owner.is_gone())
    };
    std::fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .filter(is_gone)
        .map(|entry| entry.path())
}

/// A name that is unique on this host.
pub(crate) fn unique_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!(
        "{}{}",
        Owner::current().prefix(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_contains_its_owner() {
        let name = unique_name();
        assert_ne!(name, unique_name());
        let owner = Owner::of(&name).expect("our own name");
        assert_eq!(owner, Owner::current());
        assert!(owner.start > 0 && !owner.is_gone());
    }

    #[test]
    fn only_a_local_ended_owner_is_gone() {
        assert!(Owner::dead().is_gone());
        let elsewhere = Owner {
            namespace: 1,
            ..Owner::dead()
        };
        assert!(!elsewhere.is_gone());
    }

    #[test]
    fn foreign_names_have_no_owner() {
        for name in [
            "sandbox",
            "sandbox-1",
            "sandbox-x-1-2-3",
            "sandbox-1-2-3-4-5",
            "docker",
            "sandbox-1-2-3-x",
        ] {
            assert_eq!(Owner::of(name), None, "{name}");
        }
    }
}
