//! Decides which sandboxes can share a pod.

use k8s_openapi::api::core::v1::Pod;
use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{Error, ErrorKind, Plan, PullPolicy, Result};
use sandbox_host::{ClientKey, Sandbox};

use crate::{TIER, labels};

/// A hash of a plan's pod, settings and egress rules, without what differs between all sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape(blake3::Hash);

impl Shape {
    /// The shape of a pod and a sandbox that were lowered for a constant identity.
    ///
    /// # Errors
    ///
    /// If the pod cannot be serialized.
    pub(crate) fn of(plan: &Plan, mut pod: Pod, mut sandbox: Sandbox) -> Result<Self> {
        labels::remove_identity(&mut pod);
        // The host decides by the rules, of which the settings have a part only.
        let rules = match &plan.network {
            NetworkPolicy::Allow(_) => Some((&plan.network, &plan.network_ceiling)),
            _ => None,
        };
        let pod = serde_json::to_vec(&(pod, rules)).map_err(|error| {
            Error::new(ErrorKind::Io, "compare pods", error.to_string()).on(TIER)
        })?;
        sandbox.settings.key = ClientKey::new([0; 32]);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(pod.len() as u64).to_le_bytes());
        hasher.update(&pod);
        hasher.update(&sandbox.settings.encode());
        Ok(Self(hasher.finalize()))
    }
}

/// Whether a pod of the pool can serve this sandbox. A lifetime starts with the pod, an image that
/// is always pulled may have changed, a detached sandbox has no lease, a pod that waits would hold
/// its claims, and packages are copied in before code's agent starts.
pub(crate) fn is_poolable(plan: &Plan, pull: PullPolicy) -> bool {
    let is_plain = !plan.detached && plan.volumes.is_empty() && plan.packages.is_empty();
    is_plain && plan.lifetime.is_none() && pull != PullPolicy::Always
}

#[cfg(test)]
mod tests {
    use sandbox_core::{CapabilityPolicy, SandboxSpec};

    use super::*;

    #[test]
    fn packages_are_not_in_a_pod_of_the_pool() {
        let plan = |policy| Plan::resolve(&SandboxSpec::new("sb"), &policy).expect("a plan");
        let plain = plan(CapabilityPolicy::new());
        assert!(is_poolable(&plain, PullPolicy::Never));
        let with_packages = plan(CapabilityPolicy::new().package("demo"));
        assert!(!is_poolable(&with_packages, PullPolicy::Never));
    }
}
