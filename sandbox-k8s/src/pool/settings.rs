//! The configuration and the counts of the warm pool.

use std::time::Duration;

/// The default maximum age of a pod in the pool. It bounds how long an outdated image is used.
pub const POOL_AGE: Duration = Duration::from_secs(600);

/// The shortest maximum age.
const SHORTEST_AGE: Duration = Duration::from_secs(10);

/// The default number of shapes that the pool keeps pods for.
pub const POOL_SHAPES: usize = 2;

/// A pool of pods that are started ahead: [`crate::KubernetesConfig::warm`].
///
/// A pool belongs to the backend that fills it. Its agents are connected already, so a claim sends
/// no request to the API server, and no other client can claim the same pod. The pool keeps pods
/// for the shapes that were created last or prepared ([`crate::KubernetesBackend::prepare`]).
/// Sandboxes have the same shape if their pods are equal except for the name: image, limits, user,
/// labels, profile, writable folders and confinement. Names, environments, time and output limits
/// may differ. A sandbox that is detached, has a lifetime, or always pulls its image never comes
/// from the pool.
///
/// Waiting pods count against the namespace's quota and reserve resources on the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WarmPool {
    /// How many pods wait per shape.
    pub size: usize,
    /// The maximum age. An older pod is replaced, and never claimed.
    pub max_age: Duration,
    /// How many shapes; the least recently requested one is dropped.
    pub shapes: usize,
}

impl WarmPool {
    /// A pool of this many pods per shape.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self {
            size,
            max_age: POOL_AGE,
            shapes: POOL_SHAPES,
        }
    }

    /// Replaces pods that are older than this, at least 10 s: pods take some seconds to start.
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = age.max(SHORTEST_AGE);
        self
    }

    /// Keeps pods of this many shapes, at least one.
    #[must_use]
    pub fn shapes(mut self, count: usize) -> Self {
        self.shapes = count.max(1);
        self
    }
}

/// Counts of a warm pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolCounts {
    /// Pods that wait now.
    pub ready: usize,
    /// Pods that are being started now.
    pub filling: usize,
    /// Pods that were claimed; each counts once.
    pub claimed: u64,
    /// Sandboxes that found no ready pod in the pool.
    pub missed: u64,
    /// Pods that were removed unclaimed: too old, with an outdated image, ended, or of a dropped
    /// shape.
    pub discarded: u64,
    /// Why the last start of a pod failed; `None` after a success.
    pub failure: Option<String>,
}
