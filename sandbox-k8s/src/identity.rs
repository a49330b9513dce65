//! Generates names and users that no other pod has.

use sandbox_core::{Error, ErrorKind, Plan, Result};

use crate::TIER;

/// The first user ID of our pods, above those that images and nodes use.
const FIRST_USER: u32 = 0x1000_0000;
/// The number of user IDs, which keeps all below 2³¹.
const USERS: u32 = 0x4000_0000;

/// The most characters of a sandbox's name in its pod's name. The rest of a host name's 63 makes it
/// unique.
const NAME_LENGTH: usize = 40;

/// The number of hash characters in the pod name of a detached sandbox.
const HASH_LENGTH: usize = 14;

/// Distinguishes one sandbox from all others in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodIdentity {
    pub pod: String,
    /// Identifies this creation of a pod.
    pub creation: String,
    /// The user and group of code if the specification names none. The kernel counts processes per
    /// user on the whole node, so a limit works only if no other pod has the same user.
    pub user: u32,
}

impl PodIdentity {
    /// A new identity.
    ///
    /// # Errors
    ///
    /// If the system provides no random bytes.
    pub(crate) fn new(plan: &Plan) -> Result<Self> {
        Ok(Self::of(plan, random()?))
    }

    /// An identity for a canary pod with this role.
    ///
    /// # Errors
    ///
    /// If the system provides no random bytes.
    pub(crate) fn canary(role: &str) -> Result<Self> {
        Ok(Self::named(&format!("canary-{role}"), random()?))
    }

    /// The identity derived from these random bits.
    pub(crate) fn of(plan: &Plan, random: u64) -> Self {
        let attached = Self::named(&plan.name, random);
        match plan.detached {
            true => Self {
                pod: detached_pod(&plan.name),
                ..attached
            },
            false => attached,
        }
    }

    fn named(name: &str, random: u64) -> Self {
        let low = u32::try_from(random & u64::from(USERS - 1)).unwrap_or_default();
        Self {
            pod: format!("sandbox-{}-{:010x}", host_name(name), random >> 24),
            creation: format!("{random:016x}"),
            user: FIRST_USER + low,
        }
    }
}

/// The pod name of a detached sandbox. It depends only on the sandbox's name, so the API server
/// accepts one of several concurrent creations. A hash covers what a host name cannot hold.
pub(crate) fn detached_pod(sandbox: &str) -> String {
    let hash = blake3::hash(sandbox.as_bytes()).to_hex();
    format!("sandbox-{}-{}", host_name(sandbox), &hash[..HASH_LENGTH])
}

/// A random value that identifies one client of a cluster.
///
/// # Errors
///
/// If the system provides no random bytes.
pub(crate) fn client() -> Result<String> {
    Ok(format!("{:016x}", random()?))
}

fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    if !matches!(filled, Ok(8)) {
        let why = "the system gave no random bytes";
        return Err(Error::new(ErrorKind::Io, "name the pod", why).on(TIER));
    }
    Ok(u64::from_le_bytes(bytes))
}

/// The part of a sandbox's name that is valid in a host name.
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
    use crate::lowering::tests::plan;
    use sandbox_core::{CapabilityPolicy, SandboxSpec};

    fn named(name: &str, detached: bool) -> Plan {
        let spec = SandboxSpec::new(name).detached(detached);
        plan(&spec, &CapabilityPolicy::new())
    }

    #[test]
    fn names_are_valid_host_names_and_users_are_in_range() {
        for name in ["sb", "a_b.c-", &"x".repeat(63)] {
            for detached in [false, true] {
                for random in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
                    let identity = PodIdentity::of(&named(name, detached), random);
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
        }
        let attached = named("sb", false);
        assert_ne!(
            PodIdentity::new(&attached).expect("one"),
            PodIdentity::new(&attached).expect("another")
        );
    }

    #[test]
    fn detached_pod_name_is_stable_and_unique() {
        let pod = |name: &str, random| PodIdentity::of(&named(name, true), random).pod;
        assert_eq!(pod("a.b", 1), pod("a.b", 2));
        assert_eq!(pod("a.b", 1), detached_pod("a.b"));
        // Names that differ only in what a host name cannot hold.
        let long = "x".repeat(60);
        for (one, other) in [
            ("a.b", "a_b"),
            ("ab-", "ab"),
            (&*format!("{long}1"), &*format!("{long}2")),
        ] {
            assert_ne!(detached_pod(one), detached_pod(other));
        }
    }
}
