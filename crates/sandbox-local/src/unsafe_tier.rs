//! The tier `local_unsafe`: the agent without any isolation.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use async_trait::async_trait;
use sandbox_agent::protocol::Confinement;
use sandbox_core::spi::{Backend, Finding, Instance};
use sandbox_core::{EnforcementReport, Plan, Result};
use sandbox_host::{AgentInstance, Sandbox};
use tokio::net::UnixStream;

use crate::LocalConfig;
use crate::cgroup::{Group, Limits};
use crate::error;
use crate::host::{Host, findings, profile};
use crate::isolator::LocalIsolator;
use crate::remains::Remains;
use crate::spawn::Launch;
use crate::start::{launch_agent, stream};

/// The name of the tier.
pub(crate) const TIER: &str = "local_unsafe";

const REASON: &str = "local_unsafe applies no policy";

/// Programs of this machine as the caller's user, with all the caller's rights. An execution still ends at its time limit, with
/// its whole tree, its output is bounded, and its environment is the specification's.
#[derive(Debug, Default)]
pub struct UnsafeLocalBackend {
    config: LocalConfig,
}

impl UnsafeLocalBackend {
    /// A backend with these settings.
    #[must_use]
    pub fn new(config: LocalConfig) -> Self {
        Self { config }
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
        let mut remains = Remains::new(false);
        // Limits nothing: it finds the processes when they are to be ended.
        let group = Group::plan(
            &host.cgroups,
            &Limits {
                track: true,
                ..Limits::default()
            },
        );
        remains.set_group(group.map(Arc::new));
        let (stream, theirs) = stream(TIER)?;
        let launch = Launch {
            stream: theirs,
            namespaces: 0,
            maps: None,
            mapped: Vec::new(),
            scratch: None,
            die_with_parent: false,
            network: None,
            groups: Arc::default(),
            setup: false,
            listen: None,
        };
        let remains = launch_agent(TIER, launch, remains).await?;
        let stream = UnixStream::from_std(stream)
            .map_err(|cause| error::setup(TIER, "the agent's stream", cause))?;
        let confinement = Confinement {
            umask: 0o022,
            ..Confinement::default()
        };
        let mut sandbox = Sandbox::new(plan, confinement, EnforcementReport::nothing(REASON))?;
        sandbox.settings.make_dirs.clear();
        if plan.workdir.is_none() {
            sandbox.settings.workdir = work_folder(plan)?;
        }
        let isolator = LocalIsolator::new(TIER, remains, None, false, plan.lifetime);
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
}

/// Nothing is mounted, so the workspace is where it is on the host.
fn work_folder(plan: &Plan) -> Result<Vec<u8>> {
    let folder = match &plan.workspace {
        Some(workspace) => workspace.path.clone(),
        None => std::env::current_dir()
            .map_err(|cause| error::setup(TIER, "the current folder", cause))?,
    };
    Ok(folder.as_os_str().as_bytes().to_vec())
}

fn check(plan: &Plan) -> Result<()> {
    if plan.image.is_some() {
        return Err(error::invalid_spec(
            TIER,
            "image: the local backend has no images",
            "leave the image out, or use a container backend",
        ));
    }
    if !plan.packages.is_empty() {
        return Err(sandbox_core::Error::new(
            sandbox_core::ErrorKind::Unsupported,
            "create sandbox",
            "packages: this tier installs none",
        )
        .on(TIER)
        .with_fix("use the tier local, or install them on the host"));
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
