//! Decides everything about a sandbox before the engine is asked to create it.

use sandbox_agent::protocol::{Confinement, ResourceLimit};
use sandbox_core::{EnforcementReport, Error, Plan, Result};
use sandbox_host::confinement::{self, Isolation, Kernel, Paths, Profile};
use sandbox_host::egress::ENDS_TLS;
use sandbox_host::seccomp::Arch;
use sandbox_lang::packages::ProvisionNetwork;

use super::{ContainerBackend, UMASK};
use crate::engine::{Engine, EngineFacts};
use crate::folders::HostFolders;
use crate::identity::CodeIdentity;
use crate::lowering::StorageSplit;
use crate::quota::{LayerQuota, QuotaTrial};
use crate::{EngineFamily, Tier, egress, report};

impl<F: EngineFamily> ContainerBackend<F> {
    /// Plans the container for a sandbox on an engine.
    pub(super) async fn plan_container(
        &self,
        plan: &Plan,
        engine: &Engine,
        trial: QuotaTrial,
    ) -> Result<ContainerPlan> {
        let facts = &engine.facts;
        if !self.applies_policy {
            let confinement = Confinement {
                umask: UMASK,
                ..Confinement::default()
            };
            let report = EnforcementReport::nothing(&format!("{} applies no policy", self.tier));
            return Ok(ContainerPlan {
                confinement,
                report,
                confined: None,
                folders: HostFolders::default(),
            });
        }
        let kernel = kernel(self.tier, facts)?;
        let folders = HostFolders::open(self.tier, plan, facts)?;
        let identity = CodeIdentity::of(self.tier, plan, facts, &folders)?;
        let mode = identity.mode();
        sandbox_host::check_export_paths(&plan.export_paths)
            .map_err(|error| error.on(self.tier))?;
        let exports = confinement::export_folders(&plan.export_paths);
        let exports = exports
            .iter()
            .filter_map(|folder| folder.to_str())
            .map(ToOwned::to_owned);
        let quota = LayerQuota::of(self.tier, engine, plan, trial).await;
        let storage = StorageSplit::new(plan, &exports.collect::<Vec<_>>(), &quota);
        let network = match self.config.package_network.as_deref() {
            _ if plan.packages.is_empty() => ProvisionNetwork::Full,
            Some(network) => ProvisionNetwork::Named(network),
            None if egress::can_carry_rules(facts) => {
                ProvisionNetwork::by_rules(plan, &self.config.packages, ENDS_TLS)
            }
            None => ProvisionNetwork::Full,
        };
        let family = self.tier.family;
        let report = report::report(family, plan, facts, &kernel, mode, &storage, &network);
        let profile = Profile::new(Isolation::Container, Paths::of(plan, Isolation::Container));
        let mut confinement = confinement::confinement(plan, &kernel, mode, &profile);
        // The engine gets them too, but rootless Podman applies only a few.
        for (resource, value) in &self.config.options.ulimits {
            tighten(&mut confinement.limits, resource.number(), *value);
        }
        confinement
            .limits
            .retain(|limit| facts.kernel_isolation.takes_limit(limit.resource));
        Ok(ContainerPlan {
            confinement,
            report,
            confined: Some((storage, identity)),
            folders,
        })
    }
}

/// Lowers a resource limit, or adds it if missing. Never raises one.
fn tighten(limits: &mut Vec<ResourceLimit>, resource: u32, value: u64) {
    match limits.iter_mut().find(|limit| limit.resource == resource) {
        Some(limit) => limit.value = limit.value.min(value),
        None => limits.push(ResourceLimit { resource, value }),
    }
}

/// Everything decided about a sandbox before the engine is asked to create it.
pub(super) struct ContainerPlan {
    pub confinement: Confinement,
    pub report: EnforcementReport,
    /// `None` without a policy.
    pub confined: Option<(StorageSplit, CodeIdentity)>,
    /// The host folders, held open. Empty without a policy.
    pub folders: HostFolders,
}

/// The kernel features that executions on this engine can be confined with.
pub(crate) fn kernel(tier: Tier, facts: &EngineFacts) -> Result<Kernel> {
    let arch = Arch::from_name(&facts.architecture).ok_or_else(|| {
        let reason = format!(
            "the engine's architecture {:?} is not supported",
            facts.architecture
        );
        Error::unavailable(tier, reason, "use an engine on x86_64 or aarch64")
    })?;
    Ok(Kernel {
        arch,
        // The engine's own filter may deny Landlock, so containers do not rely on it.
        landlock_abi: 0,
        seccomp: facts.seccomp,
        // The host's kernel version says nothing about another kernel.
        seccomp_notify: facts.seccomp
            && facts.kernel >= (5, 5)
            && facts.kernel_isolation.shares_kernel(),
    })
}
