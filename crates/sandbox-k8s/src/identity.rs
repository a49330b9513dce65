//! Names and users that no other pod has.

use sandbox_core::{Error, ErrorKind, Result};

use crate::TIER;

/// Users of our pods begin here, above everybody's whom an image or a node may know.
const FIRST_USER: u32 = 0x1000_0000;
/// And there are this many, so that all numbers stay below 2³¹.
const USERS: u32 = 0x4000_0000;

/// How much of a sandbox's name goes into its pod's: the rest is for what makes it unique, and the whole is the most that a
/// host name has.
const NAME_LENGTH: usize = 40;

/// What tells one sandbox from all others of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The pod's name.
    pub pod: String,
    /// The code's user and group, where the specification names none. The kernel counts processes by user on the whole node, so that
    /// a limit of them means something only where nobody else is that user.
    pub user: u32,
}

impl Identity {
    /// A new one.
    ///
    /// # Errors
    ///
    /// When the system has no randomness.
    pub(crate) fn new(sandbox: &str) -> Result<Self> {
        let mut bytes = [0; 8];
        let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        if !matches!(filled, Ok(8)) {
            let why = "the system gave no random bytes";
            return Err(Error::new(ErrorKind::Io, "name the pod", why).on(TIER));
        }
        Ok(Self::of(sandbox, u64::from_le_bytes(bytes)))
    }

    /// The one of these random bits.
    pub(crate) fn of(sandbox: &str, random: u64) -> Self {
        let low = u32::try_from(random & u64::from(USERS - 1)).unwrap_or_default();
        Self {
            pod: format!("sandbox-{}-{:010x}", host_name(sandbox), random >> 24),
            user: FIRST_USER + low,
        }
    }
}

/// A sandbox's name as far as a host name can hold it.
fn host_name(sandbox: &str) -> String {
    let plain: String = sandbox
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(NAME_LENGTH)
        .collect();
    plain.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_host_names_and_users_are_nobodys() {
        for name in ["sb", "a_b.c-", &"x".repeat(63)] {
            for random in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
                let identity = Identity::of(name, random);
                assert!(identity.pod.len() <= 63, "{identity:?}");
                assert!(
                    identity
                        .pod
                        .bytes()
                        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-'),
                    "{identity:?}"
                );
                assert!((FIRST_USER..FIRST_USER + USERS).contains(&identity.user));
            }
        }
        assert_ne!(
            Identity::new("sb").expect("one"),
            Identity::new("sb").expect("another")
        );
    }
}
