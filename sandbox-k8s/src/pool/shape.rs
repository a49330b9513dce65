//! Which sandboxes could have the same pod.

use k8s_openapi::api::core::v1::Pod;
use sandbox_core::{Error, ErrorKind, Plan, PullPolicy, Result};
use sandbox_host::{Key, Sandbox};

use crate::{TIER, labels};

/// What a plan's pod and the first message to its agent are, but for what no two have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape(blake3::Hash);

impl Shape {
    /// Of a pod and a sandbox that were lowered for an identity that is always the same.
    ///
    /// # Errors
    ///
    /// When a pod cannot be written down.
    pub(crate) fn of(mut pod: Pod, mut sandbox: Sandbox) -> Result<Self> {
        labels::forget_identity(&mut pod);
        let pod = serde_json::to_vec(&pod).map_err(|error| {
            Error::new(ErrorKind::Io, "compare pods", error.to_string()).on(TIER)
        })?;
        sandbox.settings.key = Key::new([0; 32]);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(pod.len() as u64).to_le_bytes());
        hasher.update(&pod);
        hasher.update(&sandbox.settings.encode());
        Ok(Self(hasher.finalize()))
    }
}

/// Whether a pod that was started earlier can be this sandbox at all: its time to live begins with it, its image is the one that the
/// name means now, and nobody else's lease keeps it.
pub(crate) fn is_poolable(plan: &Plan, pull: PullPolicy) -> bool {
    !plan.detached && plan.lifetime.is_none() && pull != PullPolicy::Always
}
