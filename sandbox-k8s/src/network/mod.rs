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
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use sandbox_core::{ErrorKind, Result};
use tokio::time::Instant;

pub(crate) use canary::Canary;
pub(crate) use verdict::Verdict;

/// How long a proof is valid. The cluster's network may change.
const PROVEN: Duration = Duration::from_secs(600);
/// How long a failed proof is valid. An operator may be fixing the network.
const UNPROVEN: Duration = Duration::from_secs(120);

/// How long a pod waits until its network is denied, in milliseconds. A policy comes into force
/// some time after the pod's start.
pub(crate) const AWAITED: &str = "20000";

/// Whether the network of a pod under our policy is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Denial {
    /// A canary has shown it.
    Proven {
        /// Addresses that answer without the policy. Each pod tries them before its code runs.
        witnesses: Vec<SocketAddr>,
    },
    /// Not shown, for this reason.
    Unproven(String),
}

/// The cached result for one [`Canary::cache_key`].
type Known = Arc<tokio::sync::Mutex<Option<(Instant, Denial)>>>;

/// Results shared by all clients of the process: one canary serves a hundred sandboxes.
static KNOWN: LazyLock<Mutex<HashMap<String, Known>>> = LazyLock::new(Mutex::default);

/// Whether the network is denied for this canary's pods, from the cache or a new test.
///
/// # Errors
///
/// If no pod can run at all. Missing rights or resources for the canary are not an error: the
/// denial is then unproven.
pub(crate) async fn denial(canary: &Canary<'_>) -> Result<Denial> {
    let known = {
        let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(canary.place()).or_default())
    };
    let mut known = known.lock().await;
    if let Some((found, denial)) = &*known
        && found.elapsed() < lasts(denial)
    {
        return Ok(denial.clone());
    }
    let denial = match canary.sing().await {
        Ok(Verdict::Proven { witnesses }) => Denial::Proven { witnesses },
        Ok(Verdict::Open(why)) => {
            Denial::Unproven(format!("a NetworkPolicy is not enforced: {why}"))
        }
        Ok(Verdict::Inconclusive(why)) => Denial::Unproven(format!(
            "that a NetworkPolicy is enforced was not proven: {why}"
        )),
        Err(error) if error.kind() == ErrorKind::SetupFailed => Denial::Unproven(format!(
            "that a NetworkPolicy is enforced was not proven: {error}"
        )),
        Err(error) => return Err(error),
    };
    *known = Some((Instant::now(), denial.clone()));
    Ok(denial)
}

fn lasts(denial: &Denial) -> Duration {
    match denial {
        Denial::Proven { .. } => PROVEN,
        Denial::Unproven(_) => UNPROVEN,
    }
}
