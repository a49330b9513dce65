//! The network of pods that keep one: a NetworkPolicy denies it, and a canary shows whether the
//! cluster enforces the policy.
//!
//! A cluster accepts a NetworkPolicy even if its network plugin ignores policies. So three pods are
//! started: one under the policy and two outside. The policy is enforced if the pod inside reaches
//! nothing, and is reached by nothing, that the pod outside does reach. Targets that the pod
//! outside does not reach prove nothing.

mod canary;
mod policy;
mod verdict;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use sandbox_core::{ErrorKind, Result};
use sandbox_host::lock;
use tokio::time::Instant;

pub(crate) use canary::NetworkCanary;
pub(crate) use verdict::PolicyVerdict;

/// How long a proof is valid. The cluster's network may change.
const PROVEN: Duration = Duration::from_secs(600);
/// How long a failed proof is valid. An operator may be fixing the network.
const UNPROVEN: Duration = Duration::from_secs(120);

/// How long a pod waits until its network is denied, in milliseconds. A policy comes into force
/// some time after the pod's start.
pub(crate) const POLICY_TIMEOUT_MS: &str = "20000";

/// Whether the network of a pod under our policy is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NetworkDenial {
    /// A canary has shown it.
    Proven {
        /// Addresses that answer without the policy. Each pod tries them before its code runs.
        witnesses: Vec<SocketAddr>,
    },
    /// Not shown, for this reason.
    Unproven(String),
}

/// The cached result for one [`NetworkCanary::cache_key`].
type CachedDenial = Arc<tokio::sync::Mutex<Option<(Instant, NetworkDenial)>>>;

/// Results shared by all clients of the process: one canary serves a hundred sandboxes.
static KNOWN: LazyLock<Mutex<HashMap<String, CachedDenial>>> = LazyLock::new(Mutex::default);

/// Whether the network is denied for this canary's pods, from the cache or a new test.
///
/// # Errors
///
/// If no pod can run at all. Missing rights or resources for the canary are not an error: the
/// denial is then unproven.
pub(crate) async fn denial(canary: &NetworkCanary<'_>) -> Result<NetworkDenial> {
    let known = {
        let mut all = lock(&KNOWN);
        Arc::clone(all.entry(canary.cache_key()).or_default())
    };
    let mut known = known.lock().await;
    if let Some((found, denial)) = &*known
        && found.elapsed() < validity(denial)
    {
        return Ok(denial.clone());
    }
    let denial = match canary.run().await {
        Ok(PolicyVerdict::Proven { witnesses }) => NetworkDenial::Proven { witnesses },
        Ok(PolicyVerdict::Open(why)) => {
            NetworkDenial::Unproven(format!("a NetworkPolicy is not enforced: {why}"))
        }
        Ok(PolicyVerdict::Inconclusive(why)) => NetworkDenial::Unproven(format!(
            "that a NetworkPolicy is enforced was not proven: {why}"
        )),
        Err(error) if error.kind() == ErrorKind::SetupFailed => NetworkDenial::Unproven(format!(
            "that a NetworkPolicy is enforced was not proven: {error}"
        )),
        Err(error) => return Err(error),
    };
    *known = Some((Instant::now(), denial.clone()));
    Ok(denial)
}

fn validity(denial: &NetworkDenial) -> Duration {
    match denial {
        NetworkDenial::Proven { .. } => PROVEN,
        NetworkDenial::Unproven(_) => UNPROVEN,
    }
}
