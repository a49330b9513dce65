//! The network of pods that keep one: a policy of the namespace denies it, and a canary shows whether anybody enforces that.
//!
//! A cluster takes a NetworkPolicy whether or not its network knows of policies. So three pods are started: one under the policy, and
//! two that are not. What the first one reaches, and whether it is reached, is held against what the second one reaches; what not
//! even that one reaches proves nothing.

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

/// For how long a proof stands: a cluster's network may be changed.
const PROVEN: Duration = Duration::from_secs(600);
/// For how long its absence does: somebody may be mending it.
const UNPROVEN: Duration = Duration::from_secs(120);

/// How long a pod waits until its network is denied, milliseconds: a policy takes effect some moments after a pod has begun.
pub(crate) const AWAITED: &str = "20000";

/// Whether the network of a pod under our policy is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Denial {
    /// A canary has shown it.
    Proven {
        /// Addresses that answer where nothing is denied: each pod tries them before its code runs.
        witnesses: Vec<SocketAddr>,
    },
    /// Nothing has shown it, for this reason.
    Unproven(String),
}

/// What is known of one place.
type Known = Arc<tokio::sync::Mutex<Option<(Instant, Denial)>>>;

/// Clients of one process share what they know: one canary for a hundred sandboxes.
static KNOWN: LazyLock<Mutex<HashMap<String, Known>>> = LazyLock::new(Mutex::default);

/// Whether the network is denied where this canary goes, as it was found out not long ago, or is now.
///
/// # Errors
///
/// Where no pod can run at all. That rights or room for the canary are missing is no error: then nothing is proven.
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
