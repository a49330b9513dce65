//! Owners: the process that created a container, as recorded in a label. Tells containers of killed
//! owners from those in use.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use sandbox_host::process::{Era, ProcessId};
use sandbox_host::state;

/// The process that created a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    user: u32,
    process: ProcessId,
    era: Era,
}

/// The state of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnerStatus {
    /// The current process.
    Current,
    /// Another process that runs.
    Alive,
    /// It has ended.
    Ended,
    /// It belongs to another machine, boot, process namespace or user, so its state is unknown.
    Unknown,
}

impl Owner {
    /// This process.
    pub(crate) fn current() -> Self {
        // Without /proc use pid 0, which is treated as unknown.
        let process = ProcessId::current().unwrap_or(ProcessId { pid: 0, start: 0 });
        Self {
            user: state::user(),
            process,
            era: Era::current(),
        }
    }

    /// Encodes it as a label value.
    pub(crate) fn encode(&self) -> String {
        let Self { user, process, era } = self;
        format!("{user}:{}:{}:{}", process.pid, process.start, era.encode())
    }

    /// Decodes a label value.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let mut fields = text.splitn(4, ':');
        Some(Self {
            user: fields.next()?.parse().ok()?,
            process: ProcessId {
                pid: fields.next()?.parse().ok()?,
                start: fields.next()?.parse().ok()?,
            },
            era: Era::decode(fields.next()?)?,
        })
    }

    /// Whether it belongs to the current user.
    pub(crate) fn is_current_user(&self) -> bool {
        self.user == state::user()
    }

    /// The owner's current state.
    pub(crate) fn status(&self) -> OwnerStatus {
        let visible = self.is_current_user() || state::user() == 0;
        if self.process.pid == 0 || self.era != Era::current() || !visible {
            return OwnerStatus::Unknown;
        }
        if *self == Self::current() {
            return OwnerStatus::Current;
        }
        match ProcessId::of(self.process.pid) {
            Some(process) if process == self.process => OwnerStatus::Alive,
            _ => OwnerStatus::Ended,
        }
    }
}

/// A container that this process uses or is about to create, identified by a token in a label.
/// While the claim exists, this process's sweep skips the container.
#[derive(Debug)]
pub(crate) struct ContainerClaim(String);

impl ContainerClaim {
    /// A claim with a unique token.
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let token = sandbox_core::unique_name(&format!("claim-{count}"));
        claims().insert(token.clone());
        Self(token)
    }

    /// The token.
    pub(crate) fn token(&self) -> &str {
        &self.0
    }

    /// Whether this process claims the container with this token.
    pub(crate) fn is_held(token: &str) -> bool {
        claims().contains(token)
    }
}

impl Drop for ContainerClaim {
    fn drop(&mut self) {
        claims().remove(&self.0);
    }
}

fn claims() -> MutexGuard<'static, HashSet<String>> {
    static CLAIMS: OnceLock<Mutex<HashSet<String>>> = OnceLock::new();
    let claims = CLAIMS.get_or_init(Mutex::default);
    claims.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_is_distinguished_from_a_later_process_with_its_pid() {
        let current = Owner::current();
        assert_eq!(Owner::decode(&current.encode()), Some(current.clone()));
        assert_eq!(current.status(), OwnerStatus::Current);
        let with = |process| Owner {
            process,
            ..current.clone()
        };
        let later = ProcessId {
            start: current.process.start + 1,
            ..current.process
        };
        assert_eq!(with(later).status(), OwnerStatus::Ended);
        let first = ProcessId::of(1).expect("process 1");
        assert_eq!(with(first).status(), OwnerStatus::Alive);
        for wrong in [
            "",
            "0",
            "0:1:2",
            "x:1:2:boot:3",
            "0:1:2:boot:not hexadecimal",
        ] {
            assert_eq!(Owner::decode(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn owner_elsewhere_or_without_pid_is_unknown() {
        let current = Owner::current();
        let remote = Owner::decode("0:1:2:another-start:1").expect("an owner");
        assert_eq!(remote.status(), OwnerStatus::Unknown);
        let unidentified = Owner {
            process: ProcessId { pid: 0, start: 0 },
            ..current
        };
        assert_eq!(unidentified.status(), OwnerStatus::Unknown);
    }

    #[test]
    fn claim_lasts_until_dropped() {
        let claim = ContainerClaim::new();
        let token = claim.token().to_owned();
        assert!(ContainerClaim::is_held(&token) && !ContainerClaim::is_held("another"));
        assert_ne!(ContainerClaim::new().token(), token);
        drop(claim);
        assert!(!ContainerClaim::is_held(&token));
    }
}
