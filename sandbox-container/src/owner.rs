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
pub(crate) enum Standing {
    /// The current process.
    Ourselves,
    /// Another process that runs.
    Alive,
    /// It has ended.
    Gone,
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
    pub(crate) fn is_of_our_user(&self) -> bool {
        self.user == state::user()
    }

    /// The owner's current state.
    pub(crate) fn standing(&self) -> Standing {
        let visible = self.is_of_our_user() || state::user() == 0;
        if self.process.pid == 0 || self.era != Era::current() || !visible {
            return Standing::Unknown;
        }
        if *self == Self::current() {
            return Standing::Ourselves;
        }
        match ProcessId::of(self.process.pid) {
            Some(process) if process == self.process => Standing::Alive,
            _ => Standing::Gone,
        }
    }
}

/// A container that this process uses or is about to create, identified by a token in a label.
/// While the claim exists, this process's sweep skips the container.
#[derive(Debug)]
pub(crate) struct Claim(String);

impl Claim {
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

impl Drop for Claim {
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
    fn an_owner_is_told_from_a_later_process_with_its_number() {
        let own = Owner::current();
        assert_eq!(Owner::decode(&own.encode()), Some(own.clone()));
        assert_eq!(own.standing(), Standing::Ourselves);
        let with = |process| Owner {
            process,
            ..own.clone()
        };
        let later = ProcessId {
            start: own.process.start + 1,
            ..own.process
        };
        assert_eq!(with(later).standing(), Standing::Gone);
        let first = ProcessId::of(1).expect("process 1");
        assert_eq!(with(first).standing(), Standing::Alive);
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
    fn of_what_is_not_of_here_nothing_is_known() {
        let own = Owner::current();
        let elsewhere = Owner::decode("0:1:2:another-start:1").expect("an owner");
        assert_eq!(elsewhere.standing(), Standing::Unknown);
        let nobody = Owner {
            process: ProcessId { pid: 0, start: 0 },
            ..own
        };
        assert_eq!(nobody.standing(), Standing::Unknown);
    }

    #[test]
    fn a_claim_lasts_as_long_as_it_is_held() {
        let claim = Claim::new();
        let token = claim.token().to_owned();
        assert!(Claim::is_held(&token) && !Claim::is_held("another"));
        assert_ne!(Claim::new().token(), token);
        drop(claim);
        assert!(!Claim::is_held(&token));
    }
}
