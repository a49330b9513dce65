//! A tier whose sandboxes come from pods that are started ahead.

use std::sync::Arc;

use async_trait::async_trait;
use sandbox_core::registry::Settings;
use sandbox_core::spi::Backend;
use sandbox_core::{Plan, Result};

/// A backend with one pod ready for each kind of sandbox.
#[async_trait]
pub(crate) trait WarmPods: Send + Sync {
    /// The backend for clients.
    fn backend(&self) -> Arc<dyn Backend>;

    /// Starts a pod for sandboxes with this plan. Returns how many are ready.
    async fn prepare(&self, plan: &Plan) -> Result<usize>;

    /// How many pods were claimed so far.
    fn claimed(&self) -> u64;
}

/// Opens a tier with its settings.
type Open = fn(&Settings) -> Result<Box<dyn WarmPods>>;

/// The tiers that start pods ahead.
const TIERS: &[(&str, Open)] = &[
    #[cfg(feature = "k8s")]
    ("k8s", |settings| {
        let config = sandbox_k8s::KubernetesConfig::from_environment()?;
        let config = config.with_settings(settings)?;
        let config = config.warm(sandbox_k8s::WarmPool::new(1));
        Ok(Box::new(Arc::new(sandbox_k8s::KubernetesBackend::new(
            config,
        ))))
    }),
];

/// A tier with such pods; `None` if it has none.
///
/// # Errors
///
/// Errors of the settings.
pub(crate) fn of(tier: &str, settings: &Settings) -> Result<Option<Box<dyn WarmPods>>> {
    let found = TIERS.iter().find(|(name, _)| *name == tier);
    found.map(|(_, open)| open(settings)).transpose()
}

#[cfg(feature = "k8s")]
#[async_trait]
impl WarmPods for Arc<sandbox_k8s::KubernetesBackend> {
    fn backend(&self) -> Arc<dyn Backend> {
        Arc::clone(self) as _
    }

    async fn prepare(&self, plan: &Plan) -> Result<usize> {
        sandbox_k8s::KubernetesBackend::prepare(self, plan).await
    }

    fn claimed(&self) -> u64 {
        self.pool().map_or(0, |pool| pool.claimed)
    }
}
