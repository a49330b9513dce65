//! What the agent of a pod, and its client, are told of the sandbox.

use std::path::PathBuf;

use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{Plan, Result};
use sandbox_host::Sandbox;
use sandbox_host::confinement::{self, Isolation, Mode, Paths, Profile};

use crate::config::SHORTEST_LEASE;
use crate::kernel;
use crate::launcher::{PodLauncher, PodPlan};

impl PodLauncher {
    /// The sandbox of a plan.
    pub(crate) fn sandbox(&self, plan: &Plan, pod_plan: &PodPlan) -> Result<Sandbox> {
        let folders = pod_plan.folders.iter();
        let writable = folders.filter(|folder| folder.source.is_none());
        let writable = writable.map(|folder| PathBuf::from(&folder.target));
        self.sandbox_writing(plan, pod_plan, writable)
    }

    /// The sandbox of a plan that also writes to these folders.
    fn sandbox_writing(
        &self,
        plan: &Plan,
        pod_plan: &PodPlan,
        writable: impl Iterator<Item = PathBuf>,
    ) -> Result<Sandbox> {
        let mut paths = Paths::of(plan, Isolation::Container);
        paths.write.extend(pod_plan.storage.folders());
        paths.write.extend(writable);
        let mut profile = Profile::new(Isolation::Container, paths);
        profile.pids_by_rlimit = plan.user.is_none();
        // The kubelet gives every container a world-writable file on the node's disk for its last
        // message. Only an agent with its own user can close it.
        profile.disk_by_rlimit = true;
        let mut confinement =
            confinement::confinement(plan, &pod_plan.kernel, pod_plan.mode, &profile);
        confinement.landlock = kernel::landlock(plan, &pod_plan.kernel, &profile);
        let sandbox = Sandbox::new(plan, confinement, pod_plan.report.clone())?;
        let mut sandbox = sandbox.counting_memory_kills();
        if let Some(lifetime) = plan.lifetime {
            sandbox = sandbox.ending_after(lifetime);
        }
        if self.carries_rules(plan) {
            sandbox = sandbox.with_egress(plan, self.config.egress())?;
        }
        let settings = &mut sandbox.settings;
        let lease = self.config.lease.max(SHORTEST_LEASE);
        settings.lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        if let Mode::Split { .. } = pod_plan.mode {
            settings.chown_dirs = pod_plan.storage.owned_by_code();
        }
        Ok(match plan.detached {
            true => sandbox.detached_after_attach(),
            false => sandbox,
        })
    }

    /// The sandbox of the init container: as the plan's, but it can write to the folders, and has
    /// no way out.
    pub(crate) fn fill_sandbox(&self, plan: &Plan, pod_plan: &PodPlan) -> Result<Sandbox> {
        let mut plan = plan.clone();
        if plan.network != NetworkPolicy::Full {
            plan.network = NetworkPolicy::None;
        }
        plan.detached = false;
        plan.env.clear();
        plan.workdir = None;
        // Of one file.
        plan.disk = self.config.packages.storage;
        let folders = pod_plan.folders.iter();
        let writable = folders.map(|folder| PathBuf::from(&folder.target));
        self.sandbox_writing(&plan, pod_plan, writable)
    }
}
