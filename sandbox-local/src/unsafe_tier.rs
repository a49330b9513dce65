//! The tier `local_unsafe`: the agent without any isolation.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use async_trait::async_trait;
use sandbox_agent::protocol::Confinement;
use sandbox_core::spi::{Backend, Detached, Finding, Instance};
use sandbox_core::{EnforcementReport, Plan, Result, SandboxInfo};
use sandbox_host::{AgentInstance, Sandbox};
use tokio::net::UnixStream;

use crate::LocalConfig;
use crate::attached::{self, AttachedRecord};
use crate::cgroup::{Group, Limits};
use crate::cleanup::Leftovers;
use crate::detached::{DetachedSandboxes, UnconfinedStart, start_unconfined};
use crate::error;
use crate::host::{Host, findings, profile};
use crate::isolator::LocalIsolator;
use crate::lower::{check_no_image, check_no_volumes};
use crate::spawn::Launch;
use crate::start::{agent_stream, launch_agent};
use crate::state;
use crate::sweep::sweep_once;

/// The name of the tier.
pub(crate) const TIER: &str = "local_unsafe";

const REASON: &str = "local_unsafe applies no policy";

/// Runs programs of this machine as the caller, with all of the caller's rights. Executions still
/// end at their time limit with all descendants, their output is bounded, and their environment is
/// only what the specification names.
#[derive(Debug)]
pub struct UnsafeLocalBackend {
    config: LocalConfig,
    detached: DetachedSandboxes,
}

impl Default for UnsafeLocalBackend {
    fn default() -> Self {
        Self::new(LocalConfig::default())
    }
}

impl UnsafeLocalBackend {
    /// A backend with these settings.
    #[must_use]
    pub fn new(config: LocalConfig) -> Self {
        Self {
            detached: DetachedSandboxes::new(TIER, config.clone()),
            config,
        }
    }
}

#[async_trait]
impl Backend for UnsafeLocalBackend {
    fn name(&self) -> &str {
        TIER
    }

    async fn assess(&self, plan: &Plan) -> Result<EnforcementReport> {
        check(plan)?;
        Ok(EnforcementReport::nothing(REASON))
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Instance>> {
        check(plan)?;
        let host = Host::detect(&self.config);
        if plan.detached {
            return self.create_detached(plan, &host).await;
        }
        let mut leftovers = Leftovers::new(false);
        match self.record(plan, &host) {
            Ok(record) => leftovers.set_record(record),
            // This tier needs no state folder for anything else.
            Err(error) => tracing::warn!(%error, "other processes cannot list this sandbox"),
        }
        leftovers.set_group(group(&host));
        let (stream, agent_end) = agent_stream(TIER)?;
        let launch = launch(agent_end);
        let leftovers = launch_agent(TIER, launch, leftovers).await?;
        let stream = UnixStream::from_std(stream)
            .map_err(|cause| error::setup(TIER, "the agent's stream", cause))?;
        let sandbox = sandbox(plan)?;
        let isolator = LocalIsolator::new(TIER, leftovers, None, false, plan.lifetime);
        Ok(Box::new(
            AgentInstance::connect(stream, sandbox, Box::new(isolator)).await?,
        ))
    }

    async fn diagnose(&self) -> Vec<Finding> {
        findings(&Host::detect(&self.config))
    }

    async fn profile(&self) -> Result<Vec<(String, String)>> {
        Ok(profile(TIER, &Host::detect(&self.config)))
    }

    async fn attached(&self) -> Result<Vec<SandboxInfo>> {
        attached::list_found(TIER, &self.config)
    }

    fn detached(&self) -> Option<&dyn Detached> {
        Some(&self.detached)
    }
}

impl UnsafeLocalBackend {
    fn record(&self, plan: &Plan, host: &Host) -> Result<AttachedRecord> {
        let state = state::folder(&self.config, host.user.id);
        state::prepare(TIER, &state, host.user.id)?;
        sweep_once(&host.cgroups, &state);
        AttachedRecord::create(TIER, &state, plan)
    }

    async fn create_detached(&self, plan: &Plan, host: &Host) -> Result<Box<dyn Instance>> {
        let state = state::folder(&self.config, host.user.id);
        state::prepare(TIER, &state, host.user.id)?;
        sweep_once(&host.cgroups, &state);
        let (stream, agent_end) = agent_stream(TIER)?;
        let start = UnconfinedStart {
            tier: TIER,
            plan,
            state: &state,
            launch: launch(agent_end),
            stream,
            group: group(host),
            sandbox: sandbox(plan)?,
            egress: self.config.egress(),
        };
        Ok(Box::new(start_unconfined(start).await?))
    }
}

/// A group without limits: it only finds the sandbox's processes when they are ended.
fn group(host: &Host) -> Option<Arc<Group>> {
    let limits = Limits {
        track: true,
        ..Limits::default()
    };
    Group::plan(&host.cgroups, &limits).map(Arc::new)
}

fn launch(stream: OwnedFd) -> Launch {
    Launch {
        stream,
        namespaces: 0,
        maps: None,
        mapped: Vec::new(),
        scratch: None,
        die_with_parent: false,
        network: None,
        groups_ready: Arc::default(),
        setup: false,
        listen: None,
    }
}

fn sandbox(plan: &Plan) -> Result<Sandbox> {
    let confinement = Confinement {
        umask: 0o022,
        ..Confinement::default()
    };
    let mut sandbox = Sandbox::new(plan, confinement, EnforcementReport::nothing(REASON))?;
    sandbox.settings.make_dirs.clear();
    if plan.workdir.is_none() {
        sandbox.settings.workdir = work_folder(plan)?;
    }
    Ok(sandbox)
}

/// Nothing is mounted, so the workspace is at its path on the host.
fn work_folder(plan: &Plan) -> Result<Vec<u8>> {
    let folder = match &plan.workspace {
        Some(workspace) => workspace.path.clone(),
        None => std::env::current_dir()
            .map_err(|cause| error::setup(TIER, "the current folder", cause))?,
    };
    Ok(folder.as_os_str().as_bytes().to_vec())
}

fn check(plan: &Plan) -> Result<()> {
    check_no_image(TIER, plan)?;
    check_no_volumes(TIER, plan)?;
    if !plan.packages.is_empty() {
        return Err(error::unsupported(
            TIER,
            "packages: this tier installs none",
            "use the tier local, or install them on the host",
        ));
    }
    if !plan.mounts.is_empty() {
        return Err(error::unsupported(
            TIER,
            "mounts: without isolation nothing can be mounted",
            "use the tier local, or name the host's paths in the code",
        ));
    }
    if plan.user.is_some() {
        return Err(error::invalid_spec(
            TIER,
            "user: without isolation code runs as the caller",
            "leave the user out",
        ));
    }
    Ok(())
}
