//! The backend: from a plan to a pod whose agent answers.

use async_trait::async_trait;
use sandbox_core::spi::{Backend, Finding, Instance};
use sandbox_core::{EnforcementReport, Error, ErrorKind, Plan, Result};
use sandbox_host::confinement::{self, Isolation, Kernel, Mode, Paths, Profile};
use sandbox_host::seccomp::Arch;
use sandbox_host::{AgentInstance, Sandbox};
use tokio::sync::Mutex;

use crate::agent::AgentMap;
use crate::cluster::Cluster;
use crate::config::KubernetesConfig;
use crate::identity::Identity;
use crate::isolator::PodIsolator;
use crate::lower::{self, Parts, Storage};
use crate::report::{self, Facts};
use crate::wait::Patience;
use crate::{TIER, applied, doctor, pod, stream, sweep, wait};

/// Sandboxes as pods of a cluster.
///
/// ```no_run
/// use std::sync::Arc;
/// use sandbox_core::{CapabilityPolicy, SandboxClient, SandboxSpec};
/// use sandbox_k8s::{KubernetesBackend, KubernetesConfig};
///
/// # async fn example() -> sandbox_core::Result<()> {
/// let backend = KubernetesBackend::new(KubernetesConfig::default().namespace("sandboxes"));
/// let client = SandboxClient::with_backend(Arc::new(backend), CapabilityPolicy::new())?;
/// let sandbox = client.create(&SandboxSpec::new("example")).await?;
/// println!("{}", sandbox.shell("id -u").await?.stdout_text());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct KubernetesBackend {
    config: KubernetesConfig,
    agent: AgentMap,
    /// The cluster once it was found. One that vanished is looked for again.
    cluster: Mutex<Option<Cluster>>,
}

/// What is decided of a sandbox before the cluster is asked for anything.
struct Draft {
    identity: Identity,
    mode: Mode,
    storage: Storage,
    kernel: Kernel,
    report: EnforcementReport,
}

impl KubernetesBackend {
    /// Connects to nothing yet.
    #[must_use]
    pub fn new(config: KubernetesConfig) -> Self {
        let program = config
            .agent
            .clone()
            .unwrap_or_else(|| sandbox_agent::program().into());
        Self {
            config,
            agent: AgentMap::new(program),
            cluster: Mutex::new(None),
        }
    }

    async fn cluster(&self) -> Result<Cluster> {
        let mut found = self.cluster.lock().await;
        if let Some(cluster) = &*found {
            return Ok(cluster.clone());
        }
        self.agent.check()?;
        let cluster = Cluster::find(&self.config).await?;
        let swept = cluster.clone();
        tokio::spawn(async move {
            if let Err(error) = sweep::sweep(&swept).await {
                tracing::warn!(tier = TIER, %error, "what has ended is not wholly removed");
            }
        });
        Ok(found.insert(cluster).clone())
    }

    /// A cluster that does not answer any more may be another one by the next time.
    async fn noticing<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && error.kind() == ErrorKind::SandboxUnavailable
        {
            *self.cluster.lock().await = None;
        }
        result
    }

    fn draft(&self, plan: &Plan, cluster: &Cluster) -> Result<Draft> {
        sandbox_host::check_export_paths(&plan.export_paths).map_err(|error| error.on(TIER))?;
        let exports = confinement::export_folders(&plan.export_paths);
        let exports = exports
            .iter()
            .filter_map(|folder| folder.to_str())
            .map(ToOwned::to_owned)
            .collect::<Vec<_>>();
        let storage = Storage::new(plan, &exports);
        let identity = Identity::new(&plan.name)?;
        let profile = self.config.profile;
        let mode = lower::mode(plan, profile, &identity);
        let kernel = kernel()?;
        let facts = Facts {
            profile,
            version: &cluster.version,
            kernel: &kernel,
            mode,
            storage: &storage,
            own_user: plan.user.is_none(),
        };
        let report = report::report(plan, &facts);
        Ok(Draft {
            identity,
            mode,
            storage,
            kernel,
            report,
        })
    }

    /// The image of a plan, where it may be used.
    fn image<'a>(&'a self, plan: &'a Plan) -> Result<&'a str> {
        let image = plan.image.as_deref().unwrap_or(&self.config.default_image);
        plan.check_image(&image.parse()?)
            .map_err(|error| error.on(TIER))?;
        Ok(image)
    }

    async fn build(&self, plan: &Plan, cluster: Cluster) -> Result<AgentInstance> {
        let draft = self.draft(plan, &cluster)?;
        let parts = Parts {
            identity: &draft.identity,
            profile: self.config.profile,
            arch: draft.kernel.arch,
            image: self.image(plan)?,
            pull: plan.pull.unwrap_or(self.config.pull),
            agent: &self.agent.name,
            storage: &draft.storage,
        };
        let asked = lower::pod(plan, &parts)?;
        let sandbox = self.sandbox(plan, &draft)?;
        self.agent.provide(&cluster).await?;
        let (made, guard) = pod::create(&cluster, asked).await?;
        let pods = cluster.pods();
        let patience = Patience {
            start: self.config.start_timeout,
            scheduling: self.config.scheduling_timeout,
        };
        wait::until_running(&pods, &made, patience).await?;
        let name = draft.identity.pod.clone();
        let stream = stream::enter(&pods, &name).await?;
        let isolator = PodIsolator::new(cluster, name, guard, stream.last_words());
        let mut report = sandbox.enforcement.clone();
        let mut instance = AgentInstance::connect(stream, sandbox, Box::new(isolator)).await?;
        applied::lower(&mut report, &instance, plan).await;
        instance.set_enforcement(report);
        Ok(instance)
    }

    fn sandbox(&self, plan: &Plan, draft: &Draft) -> Result<Sandbox> {
        let paths = Paths::of(plan, Isolation::Container);
        let mut profile = Profile::new(Isolation::Container, paths);
        profile.pids_by_rlimit = plan.user.is_none();
        // The kubelet gives every container a file on the node's disk for its last message, which anybody may write to.
        profile.disk_by_rlimit = true;
        let confinement = confinement::confinement(plan, &draft.kernel, draft.mode, &profile);
        let mut sandbox = Sandbox::new(plan, confinement, draft.report.clone())?;
        if let Some(lifetime) = plan.lifetime {
            sandbox = sandbox.ending_after(lifetime);
        }
        let settings = &mut sandbox.settings;
        settings.lease_ms = LEASE_MS;
        // What is mounted exists, and the rest of the root is read-only.
        settings
            .make_dirs
            .retain(|folder| draft.storage.covers(folder));
        if let Mode::Split { .. } = draft.mode {
            settings.give_dirs = draft.storage.to_give();
        }
        Ok(sandbox)
    }
}

/// Without a frame from the host for this long the agent ends everything. Between the two are an API server and a kubelet, which may
/// be away for a while.
const LEASE_MS: u64 = 60_000;

/// What every node's kernel can do that runs our pods. A pod selects this process' architecture, and without seccomp its runtime
/// would not start it; what else a node's kernel can do, an ordinary account of the cluster is not told.
fn kernel() -> Result<Kernel> {
    let arch = Arch::native().ok_or_else(|| {
        let fix = "use a machine with x86_64 or aarch64";
        Error::unavailable(TIER, "this machine's architecture has no agent", fix)
    })?;
    Ok(Kernel {
        arch,
        landlock_abi: 0,
        seccomp: true,
        seccomp_notify: false,
    })
}

#[async_trait]
impl Backend for KubernetesBackend {
    fn name(&self) -> &str {
        TIER
    }

    async fn assess(&self, plan: &Plan) -> Result<EnforcementReport> {
        let cluster = self.cluster().await?;
        Ok(self.draft(plan, &cluster)?.report)
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Instance>> {
        let cluster = self.cluster().await?;
        let built = self.build(plan, cluster).await;
        Ok(Box::new(self.noticing(built).await?))
    }

    async fn prune(&self) -> Result<Vec<String>> {
        let cluster = self.cluster().await?;
        let swept = sweep::sweep(&cluster).await;
        Ok(self.noticing(swept).await?.removed)
    }

    async fn diagnose(&self) -> Vec<Finding> {
        match self.cluster().await {
            Ok(cluster) => doctor::findings(&cluster, &self.config),
            Err(error) => vec![doctor::missing(&error)],
        }
    }

    async fn profile(&self) -> Result<Vec<(String, String)>> {
        Ok(doctor::profile(&self.cluster().await?, &self.config))
    }
}
