//! The Kubernetes backend: creates, adopts, lists and removes sandboxes that are pods.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use sandbox_agent::protocol::LandlockRules;
use sandbox_core::spi::{Backend, Finding, Found, Instance};
use sandbox_core::{EnforcementReport, Error, ErrorKind, Plan, Result, SandboxInfo};
use sandbox_host::confinement::{self, Isolation, Kernel, Mode, Paths, Profile};
use sandbox_host::seccomp::Arch;
use sandbox_host::{AgentInstance, Sandbox};
use tokio::sync::Mutex;

use crate::adopt::{Adoption, Found as Foreign};
use crate::agent::AgentMap;
use crate::cluster::Cluster;
use crate::config::{KubernetesConfig, SHORTEST_LEASE};
use crate::identity::Identity;
use crate::isolator::PodIsolator;
use crate::kept::{HandOver, Registry};
use crate::lower::{self, Parts, Storage};
use crate::made::Asked;
use crate::network::{self, Canary, Denial};
use crate::pod::Guard;
use crate::pool::{self, Pool, PoolCounts, Shape};
use crate::reach::PodReach;
use crate::report::{self, Facts};
use crate::requests::{Gate, Requests};
use crate::started::Started;
use crate::wait::Patience;
use crate::{TIER, applied, doctor, knock, labels, pod, sweep, wait};

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
    maker: Arc<Maker>,
    pool: Option<Arc<Pool>>,
}

/// Creates sandboxes for callers and for the warm pool.
#[derive(Debug)]
pub(crate) struct Maker {
    config: KubernetesConfig,
    agent: AgentMap,
    gate: Arc<Gate>,
    /// The cluster, once found. Cleared when it stops answering, so that the next call looks again.
    cluster: Mutex<Option<Cluster>>,
}

/// Decisions about a sandbox that need no request to the cluster.
struct Draft {
    identity: Identity,
    mode: Mode,
    storage: Storage,
    kernel: Kernel,
    denial: Option<Denial>,
    report: EnforcementReport,
}

impl KubernetesBackend {
    /// Creates the backend. It connects to the cluster on first use.
    #[must_use]
    pub fn new(config: KubernetesConfig) -> Self {
        let program = config
            .agent
            .clone()
            .unwrap_or_else(|| sandbox_agent::program().into());
        let warm = config.warm;
        let maker = Arc::new(Maker {
            gate: Arc::new(Gate::new(config.requests_at_once)),
            config,
            agent: AgentMap::new(program),
            cluster: Mutex::new(None),
        });
        let pool = warm.filter(|warm| warm.size > 0);
        let pool = pool.map(|warm| Arc::new(Pool::new(warm, Arc::clone(&maker))));
        Self { maker, pool }
    }

    /// Counts of the requests that this backend and its sandboxes have sent to the API server.
    #[must_use]
    pub fn requests(&self) -> Requests {
        self.maker.gate.counted()
    }

    /// Counts of the warm pool; `None` without a pool ([`KubernetesConfig::warm`]).
    #[must_use]
    pub fn pool(&self) -> Option<PoolCounts> {
        Some(self.pool.as_ref()?.counts())
    }

    /// Starts pods ahead for sandboxes with this plan until the warm pool is full. Stops at the
    /// first pod that cannot be started; [`PoolCounts::failure`] says why.
    /// [`sandbox_core::SandboxClient::check`] returns the plan.
    ///
    /// Returns how many pods are ready: 0 without a pool, and for a plan that the pool does not
    /// serve.
    ///
    /// # Errors
    ///
    /// Errors of the cluster, and of a plan that no pod can satisfy.
    pub async fn prepare(&self, plan: &Plan) -> Result<usize> {
        let Some(pool) = &self.pool else {
            return Ok(0);
        };
        let cluster = self.maker.cluster().await?;
        match self.maker.shape(plan, &cluster).await? {
            Some(shape) => Ok(pool.prepare(plan, &shape).await),
            None => Ok(0),
        }
    }

    /// Claims a pod of the warm pool as this sandbox.
    async fn claim(&self, plan: &Plan, cluster: &Cluster) -> Result<Option<AgentInstance>> {
        let Some(pool) = &self.pool else {
            return Ok(None);
        };
        let Some(shape) = self.maker.shape(plan, cluster).await? else {
            return Ok(None);
        };
        let Some(member) = pool.claim(plan, &shape).await else {
            return Ok(None);
        };
        let taken = self.maker.take(plan, cluster, member.started).await?;
        Ok(Some(taken))
    }
}

impl Maker {
    async fn cluster(&self) -> Result<Cluster> {
        let mut found = self.cluster.lock().await;
        if let Some(cluster) = &*found {
            return Ok(cluster.clone());
        }
        self.agent.check()?;
        let cluster = Cluster::find(&self.config, &self.gate).await?;
        let swept = cluster.clone();
        tokio::spawn(async move {
            if let Err(error) = sweep::sweep(&swept).await {
                tracing::warn!(tier = TIER, %error, "what has ended is not wholly removed");
            }
        });
        Ok(found.insert(cluster).clone())
    }

    /// Forgets the cluster if it does not answer: a later call may find another one.
    async fn noticing<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && error.kind() == ErrorKind::SandboxUnavailable
        {
            *self.cluster.lock().await = None;
        }
        result
    }

    async fn draft(&self, plan: &Plan, cluster: &Cluster, identity: Identity) -> Result<Draft> {
        sandbox_host::check_export_paths(&plan.export_paths).map_err(|error| error.on(TIER))?;
        let exports = confinement::export_folders(&plan.export_paths);
        let exports = exports
            .iter()
            .filter_map(|folder| folder.to_str())
            .map(ToOwned::to_owned)
            .collect::<Vec<_>>();
        let storage = Storage::new(plan, &exports);
        let profile = self.config.profile;
        let mode = lower::mode(plan, profile, &identity);
        let kernel = kernel()?;
        let mut draft = Draft {
            identity,
            mode,
            storage,
            kernel,
            denial: None,
            report: EnforcementReport::new(),
        };
        if lower::leaves_network(plan, profile) {
            draft.denial = Some(self.denial(plan, cluster, &draft).await?);
        }
        draft.report = self.report(plan, cluster, &draft);
        Ok(draft)
    }

    fn report(&self, plan: &Plan, cluster: &Cluster, draft: &Draft) -> EnforcementReport {
        let facts = Facts {
            profile: self.config.profile,
            version: &cluster.version,
            kernel: &draft.kernel,
            mode: draft.mode,
            storage: &draft.storage,
            denial: draft.denial.as_ref(),
            own_user: plan.user.is_none(),
        };
        report::report(plan, &facts)
    }

    /// Whether a NetworkPolicy denies this plan's pods their network.
    async fn denial(&self, plan: &Plan, cluster: &Cluster, draft: &Draft) -> Result<Denial> {
        let canary = Canary {
            cluster,
            agent: &self.agent,
            parts: &self.parts(plan, draft)?,
            targets: &self.config.canary_targets,
            patience: self.patience(),
        };
        network::denial(&canary).await
    }

    fn parts<'a>(&'a self, plan: &'a Plan, draft: &'a Draft) -> Result<Parts<'a>> {
        Ok(Parts {
            identity: &draft.identity,
            profile: self.config.profile,
            arch: draft.kernel.arch,
            image: self.image(plan)?,
            pull: plan.pull.unwrap_or(self.config.pull),
            agent: &self.agent.name,
            storage: &draft.storage,
            template: self.config.pod_template.as_ref(),
            detached: plan.detached,
            denial: draft.denial.as_ref(),
        })
    }

    fn patience(&self) -> Patience {
        Patience {
            start: self.config.start_timeout,
            scheduling: self.config.scheduling_timeout,
        }
    }

    /// The plan's image, if the policy allows it.
    fn image<'a>(&'a self, plan: &'a Plan) -> Result<&'a str> {
        let image = plan.image.as_deref().unwrap_or(&self.config.default_image);
        plan.check_image(&image.parse()?)
            .map_err(|error| error.on(TIER))?;
        Ok(image)
    }

    /// Lowers a plan to a pod. Only the identity does not come from the plan.
    fn lower(&self, plan: &Plan, draft: &Draft) -> Result<(Pod, Sandbox)> {
        let parts = self.parts(plan, draft)?;
        Ok((lower::pod(plan, &parts)?, self.sandbox(plan, draft)?))
    }

    /// The pool shape of a plan; `None` for a plan that the pool cannot serve.
    async fn shape(&self, plan: &Plan, cluster: &Cluster) -> Result<Option<Shape>> {
        if !pool::is_poolable(plan, plan.pull.unwrap_or(self.config.pull)) {
            return Ok(None);
        }
        // Identity is not part of a shape, so a constant one is used.
        let nobody = Identity::of(plan, 0);
        let draft = self.draft(plan, cluster, nobody).await?;
        let (pod, sandbox) = self.lower(plan, &draft)?;
        Shape::of(pod, sandbox).map(Some)
    }

    async fn build(&self, plan: &Plan, cluster: Cluster) -> Result<AgentInstance> {
        check_workspace(plan)?;
        let mut started = self.start(plan, cluster, true).await?;
        bring_workspace(plan, &mut started.instance).await?;
        Ok(started.instance)
    }

    /// Starts a pod for the pool.
    pub(crate) async fn start_ahead(&self, plan: &Plan) -> Result<Started> {
        let cluster = self.cluster().await?;
        self.noticing(self.start(plan, cluster, false).await).await
    }

    /// Turns a pod of the pool into this plan's sandbox.
    async fn take(
        &self,
        plan: &Plan,
        cluster: &Cluster,
        started: Started,
    ) -> Result<AgentInstance> {
        check_workspace(plan)?;
        let Started {
            mut instance,
            identity,
            ..
        } = started;
        let pod = identity.pod.clone();
        let mut draft = self.draft(plan, cluster, identity).await?;
        let sandbox = self.sandbox(plan, &draft)?;
        draft.kernel.landlock_abi = instance.landlock_abi();
        let mut report = self.report(plan, cluster, &draft);
        self.compare(&mut report, &instance, plan).await;
        report::from_pool(&mut report, &pod);
        instance.set_enforcement(report);
        instance.set_environment(sandbox.env);
        bring_workspace(plan, &mut instance).await?;
        Ok(instance)
    }

    /// Downgrades the report to what the kernel shows inside the pod.
    async fn compare(&self, report: &mut EnforcementReport, instance: &AgentInstance, plan: &Plan) {
        let no_network = lower::cuts_network(plan, self.config.profile);
        applied::lower(report, instance, plan, no_network).await;
    }

    /// Starts a pod and connects to its agent. With `soon`, tries `exec` before the kubelet reports
    /// that the container runs.
    async fn start(&self, plan: &Plan, cluster: Cluster, soon: bool) -> Result<Started> {
        let mut draft = self.draft(plan, &cluster, Identity::new(plan)?).await?;
        let (asked, sandbox) = self.lower(plan, &draft)?;
        #[cfg(feature = "mutants")]
        let (asked, sandbox) = match self.config.mutation {
            Some(mutation) => mutation.of(asked, sandbox),
            None => (asked, sandbox),
        };
        let mut asked = asked;
        labels::add_client(&mut asked, &cluster.owner);
        let patience = self.patience();
        labels::add_patience(&mut asked, patience.start);
        let expected = match self.takes_any_pod() {
            true => None,
            false => Some(Asked::of(&asked)?),
        };
        let expected = expected.as_ref();
        self.agent.provide(&cluster).await?;
        let cluster = cluster.for_sandbox();
        // Subscribe before the pod is created, so that no change is missed.
        let Identity { pod, creation, .. } = &draft.identity;
        let mut ticket = cluster.watch.expect(pod, creation);
        let (made, guard) = self.place(plan, &cluster, asked, expected).await?;
        ticket.is_made();
        let pods = cluster.pods();
        let target = pod::target(&made)?;
        let reach = Arc::new(PodReach::new(pods.clone(), target.clone()));
        let isolator = PodIsolator::new(cluster.clone(), target, guard, reach.last_words());
        // Later clients find a detached sandbox by its pod's status, so wait for that status.
        let running = match soon && !plan.detached {
            true => {
                let pace = &cluster.pace;
                knock::until_entered(&pods, &mut ticket, patience, expected, &reach, pace).await
            }
            false => wait::until_running(&pods, &mut ticket, patience, expected, None)
                .await
                .map(Some),
        };
        let running = match running {
            Ok(running) => running,
            Err(failed) => return Err(isolator.after(failed).await),
        };
        ticket.is_running();
        let hand_over = plan.detached.then(|| HandOver {
            cluster: &cluster,
            plan,
            pod: &made,
            key: sandbox.settings.key.clone(),
            env: sandbox.env.clone(),
            isolator: isolator.clone(),
        });
        let connected =
            AgentInstance::connect_by(Arc::clone(&reach) as _, sandbox, Box::new(isolator)).await;
        let mut instance = connected.map_err(|failed| reach.why(failed))?;
        draft.kernel.landlock_abi = instance.landlock_abi();
        let mut report = self.report(plan, &cluster, &draft);
        if !self.lies() {
            self.compare(&mut report, &instance, plan).await;
        }
        instance.set_enforcement(report);
        if let Some(hand_over) = hand_over {
            instance = hand_over.finish(instance).await?;
        }
        Ok(Started {
            instance,
            identity: draft.identity,
            ticket,
            image: running.as_ref().and_then(pod::image),
        })
    }

    /// Creates a pod. The name of a detached sandbox that has ended is freed first.
    async fn place(
        &self,
        plan: &Plan,
        cluster: &Cluster,
        pod: Pod,
        expected: Option<&Asked>,
    ) -> Result<(Pod, Guard)> {
        let again = plan.detached.then(|| pod.clone());
        match (pod::create(cluster, pod, expected).await, again) {
            (Err(taken), Some(pod)) if taken.kind() == ErrorKind::AlreadyExists => {
                Registry { cluster }.free(&plan.name).await?;
                pod::create(cluster, pod, expected).await
            }
            (made, _) => made,
        }
    }

    /// Looks at a running container that another tool created.
    async fn adoption<'a>(
        &self,
        cluster: &'a Cluster,
        container: &str,
        plan: &'a Plan,
    ) -> Result<Adoption<'a>> {
        sandbox_host::check_export_paths(&plan.export_paths).map_err(|error| error.on(TIER))?;
        if !plan.packages.is_empty() {
            // A policy may accept missing enforcement, but missing packages would break the code.
            let context = "nothing is installed for a container that somebody else has made";
            return Err(
                Error::new(ErrorKind::Unsupported, "install packages", context)
                    .on(TIER)
                    .with_fix("use a container that has them"),
            );
        }
        Ok(Adoption {
            cluster,
            plan,
            found: Foreign::look(cluster, container, plan).await?,
            kernel: kernel()?,
        })
    }

    /// Runs `act` on the registry of detached sandboxes.
    async fn with_registry<T>(
        &self,
        act: impl AsyncFnOnce(Registry<'_>) -> Result<T>,
    ) -> Result<T> {
        let cluster = self.cluster().await?;
        let done = act(Registry { cluster: &cluster }).await;
        self.noticing(done).await
    }

    /// Whether a mutant is active that must not be rejected by the check of the created pod.
    fn takes_any_pod(&self) -> bool {
        #[cfg(feature = "mutants")]
        return self.config.mutation.is_some();
        #[cfg(not(feature = "mutants"))]
        false
    }

    /// Whether a mutant is active whose report must not be corrected by the kernel's state.
    fn lies(&self) -> bool {
        #[cfg(feature = "mutants")]
        return !matches!(
            self.config.mutation,
            None | Some(crate::Mutation::Comparison | crate::Mutation::Labels)
        );
        #[cfg(not(feature = "mutants"))]
        false
    }

    fn sandbox(&self, plan: &Plan, draft: &Draft) -> Result<Sandbox> {
        let mut paths = Paths::of(plan, Isolation::Container);
        paths.write.extend(draft.storage.folders());
        let mut profile = Profile::new(Isolation::Container, paths);
        profile.pids_by_rlimit = plan.user.is_none();
        // The kubelet gives every container a world-writable file on the node's disk for its last
        // message. Only an agent with a user of its own can close it.
        profile.disk_by_rlimit = true;
        let mut confinement = confinement::confinement(plan, &draft.kernel, draft.mode, &profile);
        confinement.landlock = landlock(plan, &draft.kernel, &profile);
        let sandbox = Sandbox::new(plan, confinement, draft.report.clone())?;
        let mut sandbox = sandbox.counting_memory_kills();
        if let Some(lifetime) = plan.lifetime {
            sandbox = sandbox.ending_after(lifetime);
        }
        let settings = &mut sandbox.settings;
        let lease = self.config.lease.max(SHORTEST_LEASE);
        settings.lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        // Mounted folders exist already, and the rest of the root is read-only.
        settings
            .make_dirs
            .retain(|folder| draft.storage.covers(folder));
        if let Mode::Split { .. } = draft.mode {
            settings.give_dirs = draft.storage.to_give();
        }
        Ok(match plan.detached {
            true => sandbox.handed_over(),
            false => sandbox,
        })
    }
}

/// Fails early, before a pod is created, if the workspace is not a folder.
fn check_workspace(plan: &Plan) -> Result<()> {
    let Some(workspace) = &plan.workspace else {
        return Ok(());
    };
    let path = &workspace.path;
    let why = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => "no folder".to_owned(),
        Err(cause) => cause.to_string(),
    };
    let context = format!("workspace {}: {why}", path.display());
    Err(Error::new(ErrorKind::InvalidSpec, "create sandbox", context).on(TIER))
}

async fn bring_workspace(plan: &Plan, instance: &mut AgentInstance) -> Result<()> {
    match &plan.workspace {
        Some(workspace) => instance.bring_workspace(workspace, plan.disk).await,
        None => Ok(()),
    }
}

/// The newest Landlock ABI whose rights are used.
const NEWEST_LANDLOCK: u32 = 7;

/// The Landlock domain of executions, behind the pod's mounts and users. The agent drops the rights
/// that its node's kernel does not know.
fn landlock(plan: &Plan, kernel: &Kernel, profile: &Profile) -> Option<LandlockRules> {
    let newest = Kernel {
        landlock_abi: NEWEST_LANDLOCK,
        ..*kernel
    };
    let rules = confinement::landlock(plan, &newest, profile)?;
    Some(LandlockRules {
        adapts: true,
        ..rules
    })
}

/// What every node that can run our pods supports. A pod selects this process's architecture, and a
/// runtime without seccomp would refuse it. An ordinary account cannot query anything else about a
/// node's kernel.
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
        let cluster = self.maker.cluster().await?;
        let identity = Identity::new(plan)?;
        Ok(self.maker.draft(plan, &cluster, identity).await?.report)
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Instance>> {
        let cluster = self.maker.cluster().await?;
        if let Some(claimed) = self.claim(plan, &cluster).await? {
            return Ok(Box::new(claimed));
        }
        let built = self.maker.build(plan, cluster).await;
        Ok(Box::new(self.maker.noticing(built).await?))
    }

    async fn assess_adopted(&self, container: &str, plan: &Plan) -> Result<EnforcementReport> {
        let cluster = self.maker.cluster().await?;
        let adoption = self.maker.adoption(&cluster, container, plan).await;
        self.maker
            .noticing(adoption)
            .await
            .map(|adoption| adoption.report())
    }

    async fn adopt(&self, container: &str, plan: &Plan) -> Result<Box<dyn Instance>> {
        let cluster = self.maker.cluster().await?;
        let adopted = async {
            let adoption = self.maker.adoption(&cluster, container, plan).await?;
            adoption.enter(self.maker.agent.program()).await
        };
        let adopted = adopted.await;
        Ok(Box::new(self.maker.noticing(adopted).await?))
    }

    fn keeps_detached(&self) -> bool {
        true
    }

    async fn get(&self, name: &str) -> Result<Found> {
        self.maker
            .with_registry(async |registry| registry.get(name).await)
            .await
    }

    async fn list(&self) -> Result<Vec<SandboxInfo>> {
        self.maker
            .with_registry(async |registry| registry.list().await)
            .await
    }

    async fn remove(&self, name: &str) -> Result<()> {
        self.maker
            .with_registry(async |registry| registry.remove(name).await)
            .await
    }

    async fn prune(&self) -> Result<Vec<String>> {
        let cluster = self.maker.cluster().await?;
        let swept = sweep::sweep(&cluster).await;
        self.maker.noticing(swept).await
    }

    async fn settle(&self) {
        tokio::join!(pod::settled(), sandbox_host::farewells());
    }

    async fn diagnose(&self) -> Vec<Finding> {
        match self.maker.cluster().await {
            Ok(cluster) => doctor::findings(&cluster, &self.maker.config),
            Err(error) => vec![doctor::missing(&error)],
        }
    }

    async fn profile(&self) -> Result<Vec<(String, String)>> {
        let cluster = self.maker.cluster().await?;
        Ok(doctor::profile(&cluster, &self.maker.config).await)
    }
}
