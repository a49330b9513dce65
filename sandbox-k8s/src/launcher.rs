//! Turns a plan into a pod whose agent answers.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use sandbox_core::{EnforcementReport, Error, ErrorKind, Plan, Result};
use sandbox_host::confinement::{self, Kernel, Mode};
use sandbox_host::state::HandOver;
use sandbox_host::{AgentInstance, EngineCell, Isolator as _, Sandbox};

use crate::adopt::{ForeignPodContainer, PodAdoption};
use crate::agent::AgentConfigMap;
use crate::cluster::Cluster;
use crate::config::KubernetesConfig;
use crate::connector::PodConnector;
use crate::detached::{DetachedPods, NewDetachedPod};
use crate::egress::{self, EgressFacts};
use crate::identity::PodIdentity;
use crate::isolator::PodIsolator;
use crate::kernel::kernel;
use crate::lowering::{self, PodFolder, PodInputs, PodStorage};
use crate::network::{self, NetworkCanary, NetworkDenial};
use crate::observed::ExpectedNetwork;
use crate::packages::{self, FillTarget, KnownPackages};
use crate::pod::PodGuard;
use crate::pool::{self, Shape};
use crate::report::{self, PodFacts};
use crate::requested::RequestedPod;
use crate::requests::RequestGate;
use crate::started_pod::StartedPod;
use crate::wait::StartTimeouts;
use crate::{TIER, exec_probe, labels, observed, pod, sweep, wait, workspace};

/// Creates sandboxes for callers and for the warm pool.
#[derive(Debug)]
pub(crate) struct PodLauncher {
    pub(crate) config: KubernetesConfig,
    pub(crate) agent: AgentConfigMap,
    pub(crate) gate: Arc<RequestGate>,
    pub(crate) packages: KnownPackages,
    cluster: EngineCell<Cluster>,
}

/// Decisions about a sandbox, made before its pod is created.
pub(crate) struct PodPlan {
    identity: PodIdentity,
    pub(crate) mode: Mode,
    pub(crate) storage: PodStorage,
    /// Folders in volumes of their own.
    pub(crate) folders: Vec<PodFolder>,
    pub(crate) kernel: Kernel,
    denial: Option<NetworkDenial>,
    pub(crate) report: EnforcementReport,
}

impl PodLauncher {
    /// Creates the launcher. It connects to the cluster on first use.
    pub(crate) fn new(config: KubernetesConfig) -> Self {
        let program = config
            .agent
            .clone()
            .unwrap_or_else(|| sandbox_agent::program().into());
        Self {
            gate: Arc::new(RequestGate::new(config.requests_at_once)),
            config,
            agent: AgentConfigMap::new(program),
            packages: KnownPackages::default(),
            cluster: EngineCell::default(),
        }
    }

    pub(crate) async fn cluster(&self) -> Result<Cluster> {
        self.cluster.get(self.find_cluster()).await
    }

    /// Calls `act` with the cluster, and forgets a cluster that was unavailable.
    pub(crate) async fn with_cluster<T>(
        &self,
        act: impl AsyncFnOnce(Cluster) -> Result<T>,
    ) -> Result<T> {
        self.cluster.run(self.find_cluster(), act).await
    }

    /// Finds the cluster and starts to remove what ended sandboxes left there.
    async fn find_cluster(&self) -> Result<Cluster> {
        self.agent.check()?;
        let cluster = Cluster::find(&self.config, &self.gate).await?;
        let swept = cluster.clone();
        tokio::spawn(async move {
            if let Err(error) = sweep::sweep(&swept).await {
                tracing::warn!(tier = TIER, %error, "leftovers of ended sandboxes could not be removed");
            }
        });
        Ok(cluster)
    }

    pub(crate) async fn plan_pod(
        &self,
        plan: &Plan,
        cluster: &Cluster,
        identity: PodIdentity,
    ) -> Result<PodPlan> {
        sandbox_host::check_export_paths(&plan.export_paths).map_err(|error| error.on(TIER))?;
        let exports = confinement::export_folders(&plan.export_paths);
        let exports = exports
            .iter()
            .filter_map(|folder| folder.to_str())
            .map(ToOwned::to_owned)
            .collect::<Vec<_>>();
        let storage = PodStorage::new(plan, &exports);
        let profile = self.config.profile;
        let mode = lowering::mode(plan, profile, &identity);
        let kernel = kernel()?;
        let mut pod_plan = PodPlan {
            identity,
            mode,
            storage,
            folders: Vec::new(),
            kernel,
            denial: None,
            report: EnforcementReport::new(),
        };
        if lowering::leaves_network_to_policy(plan, profile) {
            pod_plan.denial = Some(self.denial(plan, cluster, &pod_plan).await?);
        }
        pod_plan.report = self.report(plan, cluster, &pod_plan);
        Ok(pod_plan)
    }

    fn report(&self, plan: &Plan, cluster: &Cluster, pod_plan: &PodPlan) -> EnforcementReport {
        let provision = self.provision(plan);
        let facts = PodFacts {
            profile: self.config.profile,
            version: &cluster.version,
            kernel: &pod_plan.kernel,
            mode: pod_plan.mode,
            storage: &pod_plan.storage,
            denial: pod_plan.denial.as_ref(),
            own_user: plan.user.is_none(),
            template: self.config.pod_template.as_ref(),
            provision: &provision,
        };
        report::report(plan, &facts)
    }

    /// Whether a NetworkPolicy denies this plan's pods their network.
    async fn denial(
        &self,
        plan: &Plan,
        cluster: &Cluster,
        pod_plan: &PodPlan,
    ) -> Result<NetworkDenial> {
        let canary = NetworkCanary {
            cluster,
            agent: &self.agent,
            inputs: &self.inputs(plan, pod_plan)?,
            targets: &self.config.canary_targets,
            timeouts: self.timeouts(),
        };
        network::denial(&canary).await
    }

    fn inputs<'a>(&'a self, plan: &'a Plan, pod_plan: &'a PodPlan) -> Result<PodInputs<'a>> {
        Ok(PodInputs {
            identity: &pod_plan.identity,
            profile: self.config.profile,
            arch: pod_plan.kernel.arch,
            image: self.image(plan)?,
            pull: plan.pull.unwrap_or(self.config.pull),
            agent: &self.agent.name,
            storage: &pod_plan.storage,
            folders: &pod_plan.folders,
            template: self.config.pod_template.as_ref(),
            detached: plan.detached,
            denial: pod_plan.denial.as_ref(),
        })
    }

    pub(crate) fn timeouts(&self) -> StartTimeouts {
        StartTimeouts {
            start: self.config.start_timeout,
            scheduling: self.config.scheduling_timeout,
        }
    }

    /// The plan's image, if the policy allows it.
    pub(crate) fn image<'a>(&'a self, plan: &'a Plan) -> Result<&'a str> {
        let image = plan.image.as_deref().unwrap_or(&self.config.default_image);
        plan.check_image(&image.parse()?)
            .map_err(|error| error.on(TIER))?;
        Ok(image)
    }

    /// Lowers a plan to a pod. Only the identity does not come from the plan.
    fn lower_plan(&self, plan: &Plan, pod_plan: &PodPlan) -> Result<(Pod, Sandbox)> {
        let inputs = self.inputs(plan, pod_plan)?;
        Ok((lowering::pod(plan, &inputs)?, self.sandbox(plan, pod_plan)?))
    }

    /// The pool shape of a plan; `None` for a plan that the pool cannot serve.
    pub(crate) async fn shape(&self, plan: &Plan, cluster: &Cluster) -> Result<Option<Shape>> {
        if !pool::is_poolable(plan, plan.pull.unwrap_or(self.config.pull)) {
            return Ok(None);
        }
        // The identity is not part of a shape, so a constant one is used.
        let identity = PodIdentity::of(plan, 0);
        let pod_plan = self.plan_pod(plan, cluster, identity).await?;
        let (pod, sandbox) = self.lower_plan(plan, &pod_plan)?;
        Shape::of(plan, pod, sandbox).map(Some)
    }

    pub(crate) async fn create(&self, plan: &Plan, cluster: Cluster) -> Result<AgentInstance> {
        workspace::check(plan, &self.config)?;
        packages::check_folders(plan)?;
        let mut started = match plan.packages.is_empty() {
            true => self.start(plan, cluster, true, Vec::new(), None).await?,
            false => self.start_with_packages(plan, cluster).await?,
        };
        workspace::copy_in(plan, &mut started.instance).await?;
        Ok(started.instance)
    }

    /// Starts a pod for the pool.
    pub(crate) async fn start_for_pool(&self, plan: &Plan) -> Result<StartedPod> {
        self.with_cluster(async |cluster| self.start(plan, cluster, false, Vec::new(), None).await)
            .await
    }

    /// Turns a pod of the pool into this plan's sandbox.
    pub(crate) async fn claim_pod(
        &self,
        plan: &Plan,
        cluster: &Cluster,
        started: StartedPod,
    ) -> Result<AgentInstance> {
        workspace::check(plan, &self.config)?;
        let StartedPod {
            mut instance,
            identity,
            ..
        } = started;
        let pod = identity.pod.clone();
        let mut pod_plan = self.plan_pod(plan, cluster, identity).await?;
        let sandbox = self.sandbox(plan, &pod_plan)?;
        pod_plan.kernel.landlock_abi = instance.landlock_abi();
        let mut report = self.report(plan, cluster, &pod_plan);
        self.correct_report(&mut report, &instance, plan).await;
        report::from_pool(&mut report, &pod);
        instance.set_enforcement(report);
        instance.set_environment(sandbox.env);
        workspace::copy_in(plan, &mut instance).await?;
        Ok(instance)
    }

    /// Downgrades the report to what the kernel shows inside the pod.
    async fn correct_report(
        &self,
        report: &mut EnforcementReport,
        instance: &AgentInstance,
        plan: &Plan,
    ) {
        let network = match (
            lowering::takes_network_down(plan, self.config.profile),
            self.carries_rules(plan),
        ) {
            (false, _) => ExpectedNetwork::Kept,
            (true, false) => ExpectedNetwork::Down,
            (true, true) => ExpectedNetwork::DownWithRules,
        };
        observed::downgrade(report, instance, plan, network).await;
    }

    /// Starts a pod and connects to its agent. With `probe_early`, tries `exec` before the kubelet
    /// reports that the container runs. First fills `folders` that have a source, if the node's
    /// image has the id `image`.
    pub(crate) async fn start(
        &self,
        plan: &Plan,
        cluster: Cluster,
        probe_early: bool,
        folders: Vec<PodFolder>,
        image: Option<&str>,
    ) -> Result<StartedPod> {
        let mut pod_plan = self
            .plan_pod(plan, &cluster, PodIdentity::new(plan)?)
            .await?;
        pod_plan.folders = folders;
        let is_filled = lowering::are_filled(&pod_plan.folders);
        let (request, sandbox) = self.lower_plan(plan, &pod_plan)?;
        #[cfg(feature = "mutants")]
        let (request, sandbox) = match self.config.mutation {
            Some(mutation) => mutation.of(request, sandbox),
            None => (request, sandbox),
        };
        let mut request = request;
        labels::add_client(&mut request, &cluster.owner);
        let timeouts = self.timeouts();
        // The pod is not running while packages are copied in.
        labels::add_patience(
            &mut request,
            match is_filled {
                true => timeouts.start * 2 + self.config.packages.timeout,
                false => timeouts.start,
            },
        );
        let requested = match self.skips_pod_check() {
            true => None,
            false => Some(RequestedPod::of(&request)?),
        };
        let requested = requested.as_ref();
        self.agent.provide(&cluster).await?;
        let cluster = cluster.for_sandbox();
        // Subscribe before the pod is created, so that no change is missed.
        let PodIdentity { pod, creation, .. } = &pod_plan.identity;
        let mut subscription = cluster.watch.subscribe(pod, creation);
        let (created, guard) = self.create_pod(plan, &cluster, request, requested).await?;
        subscription.mark_created();
        let pods = cluster.pods();
        let target = pod::reference(&created)?;
        let isolator = PodIsolator::new(cluster.clone(), target, Some(guard));
        let connector = Arc::new(PodConnector::new(pods.clone(), &isolator));
        if is_filled {
            let step = FillTarget {
                plan,
                pod_plan: &pod_plan,
                isolator: &isolator,
                requested,
                image,
            };
            let filled = self.fill(&step, &cluster, &mut subscription).await;
            if let Err(error) = filled {
                return Err(isolator.destroy_after(error).await);
            }
        }
        // Later clients find a detached sandbox by its pod's status, so wait for that status.
        let running = match probe_early && !plan.detached {
            true => {
                let latency = &cluster.latency;
                exec_probe::until_connected(
                    &pods,
                    &mut subscription,
                    timeouts,
                    requested,
                    &connector,
                    latency,
                )
                .await
            }
            false => wait::until_running(&pods, &mut subscription, timeouts, requested, None)
                .await
                .map(Some),
        };
        let running = match running {
            Ok(running) => running,
            Err(error) => return Err(isolator.destroy_after(error).await),
        };
        subscription.mark_running();
        let detached = plan.detached.then(|| NewDetachedPod {
            cluster: &cluster,
            pod: &created,
            hand_over: HandOver::new(TIER, plan, &sandbox),
            isolator: isolator.clone(),
            egress: self.config.egress(),
        });
        let connected =
            AgentInstance::connect_by(Arc::clone(&connector) as _, sandbox, Box::new(isolator))
                .await;
        let mut instance = connected.map_err(|error| connector.explain(error))?;
        pod_plan.kernel.landlock_abi = instance.landlock_abi();
        let mut report = self.report(plan, &cluster, &pod_plan);
        if !self.skips_report_check() {
            self.correct_report(&mut report, &instance, plan).await;
        }
        instance.set_enforcement(report);
        if let Some(detached) = detached {
            instance = detached.hand_over(instance).await?;
        }
        Ok(StartedPod {
            instance,
            identity: pod_plan.identity,
            subscription,
            image: running.as_ref().and_then(pod::image),
        })
    }

    /// Creates a pod. The name of a detached sandbox that has ended is freed first.
    async fn create_pod(
        &self,
        plan: &Plan,
        cluster: &Cluster,
        pod: Pod,
        requested: Option<&RequestedPod>,
    ) -> Result<(Pod, PodGuard)> {
        let again = plan.detached.then(|| pod.clone());
        match (pod::create(cluster, pod, requested).await, again) {
            (Err(taken), Some(pod)) if taken.kind() == ErrorKind::AlreadyExists => {
                self.detached_pods(cluster).free_name(&plan.name).await?;
                pod::create(cluster, pod, requested).await
            }
            (created, _) => created,
        }
    }

    /// Looks at a running container that another tool created.
    pub(crate) async fn adoption<'a>(
        &self,
        cluster: &'a Cluster,
        container: &str,
        plan: &'a Plan,
    ) -> Result<PodAdoption<'a>> {
        sandbox_host::check_export_paths(&plan.export_paths).map_err(|error| error.on(TIER))?;
        if !plan.packages.is_empty() {
            // A policy may accept missing enforcement, but missing packages would break the code.
            let context = "packages are not installed in adopted containers";
            return Err(
                Error::new(ErrorKind::Unsupported, "install packages", context)
                    .on(TIER)
                    .with_fix("adopt a container that has them"),
            );
        }
        Ok(PodAdoption {
            cluster,
            plan,
            container: ForeignPodContainer::find(cluster, container, plan).await?,
            kernel: kernel()?,
        })
    }

    /// Runs `act` on the registry of detached sandboxes.
    pub(crate) async fn with_registry<T>(
        &self,
        act: impl AsyncFnOnce(DetachedPods<'_>) -> Result<T>,
    ) -> Result<T> {
        self.with_cluster(async |cluster| act(self.detached_pods(&cluster)).await)
            .await
    }

    fn detached_pods<'a>(&'a self, cluster: &'a Cluster) -> DetachedPods<'a> {
        let egress = self.config.egress();
        DetachedPods { cluster, egress }
    }

    /// Whether this plan's pods have rules for connections of code.
    pub(crate) fn carries_rules(&self, plan: &Plan) -> bool {
        egress::carries_rules(plan, self.egress_facts())
    }

    pub(crate) fn egress_facts(&self) -> EgressFacts<'_> {
        EgressFacts {
            profile: self.config.profile,
            template: self.config.pod_template.as_ref(),
        }
    }

    /// Whether a mutant is active that must not be rejected by the check of the created pod.
    fn skips_pod_check(&self) -> bool {
        #[cfg(feature = "mutants")]
        return self.config.mutation.is_some();
        #[cfg(not(feature = "mutants"))]
        false
    }

    /// Whether a mutant is active whose report must not be corrected by the kernel's state.
    fn skips_report_check(&self) -> bool {
        #[cfg(feature = "mutants")]
        return !matches!(
            self.config.mutation,
            None | Some(crate::PodMutation::Comparison | crate::PodMutation::Labels)
        );
        #[cfg(not(feature = "mutants"))]
        false
    }
}
