//! Names of control groups and folders. They say whose each is, so that one whose owner was killed can be told from one in use.

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
        let look = || Self {
            namespace: namespace().unwrap_or(0),
            pid,
            start: start_of(pid).unwrap_or(0),
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

    /// Whether the process is known to be gone. In doubt it is not: its namespace may be another one than ours.
    pub(crate) fn is_gone(&self) -> bool {
        namespace() == Some(self.namespace) && start_of(self.pid) != Some(self.start)
    }
}

/// A name that no other group of this host has.
pub(crate) fn fresh() -> String {
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
    fn a_name_tells_its_owner() {
        let name = fresh();
        assert_ne!(name, fresh());
        let owner = Owner::of(&name).expect("our own name");
        assert_eq!(owner, Owner::current());
        assert!(owner.start > 0 && !owner.is_gone());
    }

    #[test]
    fn a_dead_owner_is_told_from_a_living_one() {
        let alive = Owner::current();
        assert!(
            Owner {
                start: alive.start + 1,
                ..alive.clone()
            }
            .is_gone()
        );
        assert!(
            !Owner {
                namespace: 1,
                start: 1,
                ..alive
            }
            .is_gone()
        );
    }

    #[test]
    fn foreign_names_are_left_alone() {
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
