//! The tier `local`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use sandbox_core::spi::{Backend, Finding, Instance};
use sandbox_core::{EnforcementReport, Error, Plan, Result};

use crate::LocalConfig;
use crate::host::{Host, Isolation, Material, Support, findings, profile};
use crate::lower::{LocalPlan, Site, lower};
use crate::start::{self, Order};
use crate::state;

/// The name of the tier.
pub(crate) const TIER: &str = "local";

/// Sandboxes on the kernel of this machine.
///
/// As root (with the capabilities to mount and to map ids) code runs as a subordinate user of its own; as an ordinary user, in
/// a user namespace as the caller; where user namespaces are denied, in the host's namespaces under Landlock and seccomp, with
/// the gaps reported.
#[derive(Debug, Default)]
pub struct LocalBackend {
    config: LocalConfig,
    /// The plan that was assessed last: it is about to be built.
    assessed: Mutex<Option<(Plan, Arc<LocalPlan>)>>,
}

impl LocalBackend {
    /// A backend with these settings. Touches nothing yet.
    #[must_use]
    pub fn new(config: LocalConfig) -> Self {
        Self {
            config,
            assessed: Mutex::new(None),
        }
    }

    fn lower(&self, plan: &Plan) -> Result<Arc<LocalPlan>> {
        let host = Host::detect(&self.config);
        let isolation = isolation(&host)?;
        let material = Material::of(TIER, plan)?;
        let state = self.state_folder(&host);
        let lowered = lower(
            plan,
            &Site {
                tier: TIER,
                host: &host,
                isolation,
                material: &material,
                state: &state,
                private: &state.join("private"),
                agent: 1,
                user_tasks: 0,
            },
        )?;
        Ok(Arc::new(lowered))
    }

    fn take_assessed(&self, plan: &Plan) -> Option<Arc<LocalPlan>> {
        let mut assessed = self.assessed.lock().unwrap_or_else(PoisonError::into_inner);
        let same = assessed.as_ref().is_some_and(|(known, _)| known == plan);
        if same {
            assessed.take().map(|(_, lowered)| lowered)
        } else {
            None
        }
    }

    /// The state folder as mounts name it: without links, once it exists.
    fn state_folder(&self, host: &Host) -> PathBuf {
        let folder = state::folder(&self.config, host.user.id);
        folder.canonicalize().unwrap_or(folder)
    }
}

fn isolation(host: &Host) -> Result<Isolation> {
    host.isolation().ok_or_else(|| {
        let (reason, fix) = match &host.namespaces {
            Support::Missing { reason, fix } => (reason.clone(), fix.clone()),
            Support::Present => (String::new(), String::new()),
        };
        let instead = if host.user.id == 0 {
            "root is not held by Landlock alone: run as an ordinary user"
        } else {
            "the kernel has no Landlock or no seccomp filters to use instead"
        };
        Error::unavailable(
            TIER,
            format!("no namespaces ({reason}), and {instead}"),
            fix,
        )
    })
}

#[async_trait]
impl Backend for LocalBackend {
    fn name(&self) -> &str {
        TIER
    }

    async fn assess(&self, plan: &Plan) -> Result<EnforcementReport> {
        let lowered = self.lower(plan)?;
        let report = lowered.report.clone();
        let mut assessed = self.assessed.lock().unwrap_or_else(PoisonError::into_inner);
        *assessed = Some((plan.clone(), lowered));
        Ok(report)
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Instance>> {
        let lowered = match self.take_assessed(plan) {
            Some(lowered) => lowered,
            None => self.lower(plan)?,
        };
        let host = Host::detect(&self.config);
        let folder = state::folder(&self.config, host.user.id);
        state::prepare(TIER, &folder, host.user.id)?;
        let state = self.state_folder(&host);
        let order = Order {
            tier: TIER,
            plan,
            host: &host,
            state: &state,
            lowered: &lowered,
        };
        Ok(Box::new(start::start(&order).await?))
    }

    async fn diagnose(&self) -> Vec<Finding> {
        findings(&Host::detect(&self.config))
    }

    async fn profile(&self) -> Result<Vec<(String, String)>> {
        Ok(profile(TIER, &Host::detect(&self.config)))
    }
}
