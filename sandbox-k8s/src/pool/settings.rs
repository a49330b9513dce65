//! What a user may set of a warm pool, and what is known of one.

use std::time::Duration;

/// How old a pod of a pool may become before it is replaced, unless the configuration says otherwise: an image that was changed on a
/// node is used by then.
pub const POOL_AGE: Duration = Duration::from_secs(600);

/// The shortest such age.
const SHORTEST_AGE: Duration = Duration::from_secs(10);

/// For how many different kinds of sandboxes pods are kept, unless the configuration says otherwise.
pub const POOL_SHAPES: usize = 2;

/// A pool of pods that were started before anybody asked for them: [`crate::KubernetesConfig::warm`].
///
/// A pool belongs to the backend that fills it: its agents are entered already, so that a claim asks the API server for nothing, and no
/// other client can claim the same one. It keeps pods for the kinds of sandboxes that were created last, or prepared
/// ([`crate::KubernetesBackend::prepare`]): those whose pods would be equal but for their names, so image, limits, user, labels,
/// profile, writable folders and confinement. Names, environments, time and output limits may differ. A sandbox that is detached, has a
/// lifetime, or whose image is always pulled is never taken from it.
///
/// Pods that wait count against the namespace's quota and take their requests from the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WarmPool {
    /// How many pods wait, of each kind.
    pub size: usize,
    /// How old one may become; an older one is replaced, and never claimed.
    pub max_age: Duration,
    /// How many kinds; the one that was asked for least recently goes.
    pub shapes: usize,
}

impl WarmPool {
    /// A pool of this many pods of each kind.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self {
            size,
            max_age: POOL_AGE,
            shapes: POOL_SHAPES,
        }
    }

    /// Replaces pods that are older than this, ten seconds or more: they are no use while they start.
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = age.max(SHORTEST_AGE);
        self
    }

    /// Keeps pods of this many kinds, at least one.
    #[must_use]
    pub fn shapes(mut self, count: usize) -> Self {
        self.shapes = count.max(1);
        self
    }
}

/// What a warm pool has done so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolCounts {
    /// How many pods wait now.
    pub ready: usize,
    /// How many are being started now.
    pub filling: usize,
    /// How many were claimed, each once.
    pub claimed: u64,
    /// How many sandboxes could have come from the pool and did not, for none was ready.
    pub missed: u64,
    /// How many were thrown away unclaimed: too old, of an image that has changed, ended, or of a kind that nobody asks for any more.
    pub discarded: u64,
    /// Why the last attempt to start one failed; `None` after one that did not.
    pub failure: Option<String>,
}
