//! The Kubernetes backend: creates, adopts, lists and removes sandboxes that are pods.

use std::sync::Arc;

use async_trait::async_trait;
use sandbox_core::spi::{Adopt, Backend, Detached, Finding, Found, Instance, RecordedSandbox};
use sandbox_core::{EnforcementReport, Error, ErrorKind, Plan, Result, SandboxInfo};
use sandbox_host::AgentInstance;
use sandbox_host::state::NameRecords;

use crate::cluster::Cluster;
use crate::config::KubernetesConfig;
use crate::identity::PodIdentity;
use crate::launcher::PodLauncher;
use crate::pool::{Pool, PoolCounts};
use crate::requests::Requests;
use crate::{TIER, doctor, pod, sweep};

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
    pub(crate) launcher: Arc<PodLauncher>,
    pool: Option<Arc<Pool>>,
    /// The names of detached sandboxes, for clients that open the tier by name.
    names: NameRecords,
}

impl KubernetesBackend {
    /// Creates the backend. It connects to the cluster on first use.
    #[must_use]
    pub fn new(config: KubernetesConfig) -> Self {
        let warm = config.warm;
        let launcher = Arc::new(PodLauncher::new(config));
        let pool = warm.filter(|warm| warm.size > 0);
        let pool = pool.map(|warm| Arc::new(Pool::new(warm, Arc::clone(&launcher))));
        Self {
            launcher,
            pool,
            names: NameRecords::new(TIER),
        }
    }

    /// Counts of the requests that this backend and its sandboxes have sent to the API server.
    #[must_use]
    pub fn requests(&self) -> Requests {
        self.launcher.gate.counted()
    }

    /// Counts of the warm pool; `None` without a pool ([`KubernetesConfig::warm`]).
    #[must_use]
    pub fn pool(&self) -> Option<PoolCounts> {
        Some(self.pool.as_ref()?.counts())
    }

    /// Starts pods ahead for sandboxes with this plan until the warm pool is full. Stops at the
    /// first pod that cannot be started; [`PoolCounts::failure`] says why.
    /// [`sandbox_core::SandboxClient::plan`] returns the plan.
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
        let cluster = self.launcher.cluster().await?;
        match self.launcher.shape(plan, &cluster).await? {
            Some(shape) => Ok(pool.prepare(plan, &shape).await),
            None => Ok(0),
        }
    }

    /// Claims a pod of the warm pool as this sandbox.
    async fn claim(&self, plan: &Plan, cluster: &Cluster) -> Result<Option<AgentInstance>> {
        let Some(pool) = &self.pool else {
            return Ok(None);
        };
        let Some(shape) = self.launcher.shape(plan, cluster).await? else {
            return Ok(None);
        };
        let Some(claimed) = pool.claim(plan, &shape).await else {
            return Ok(None);
        };
        let taken = self
            .launcher
            .claim_pod(plan, cluster, claimed.started)
            .await?;
        Ok(Some(taken))
    }
}

#[async_trait]
impl Backend for KubernetesBackend {
    fn name(&self) -> &str {
        TIER
    }

    async fn assess(&self, plan: &Plan) -> Result<EnforcementReport> {
        let cluster = self.launcher.cluster().await?;
        let identity = PodIdentity::new(plan)?;
        Ok(self
            .launcher
            .plan_pod(plan, &cluster, identity)
            .await?
            .report)
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Instance>> {
        let created = self
            .launcher
            .with_cluster(async |cluster| match self.claim(plan, &cluster).await? {
                Some(claimed) => Ok(claimed),
                None => self.launcher.create(plan, cluster).await,
            })
            .await?;
        if plan.detached {
            self.names.add(&plan.name, &self.launcher.config.settings());
        }
        Ok(Box::new(created))
    }

    async fn settle(&self) {
        tokio::join!(
            pod::REMOVER.settled(),
            sandbox_host::closed_clients_notified()
        );
    }

    async fn diagnose(&self) -> Vec<Finding> {
        match self.launcher.cluster().await {
            Ok(cluster) => doctor::findings(&cluster, &self.launcher.config),
            Err(error) => vec![doctor::missing(&error)],
        }
    }

    async fn profile(&self) -> Result<Vec<(String, String)>> {
        let cluster = self.launcher.cluster().await?;
        Ok(doctor::profile(&cluster, &self.launcher.config).await)
    }

    async fn attached(&self) -> Result<Vec<SandboxInfo>> {
        self.launcher
            .with_registry(async |registry| registry.attached().await)
            .await
    }

    fn runs_images(&self) -> bool {
        true
    }

    fn detached(&self) -> Option<&dyn Detached> {
        Some(self)
    }

    fn adoption(&self) -> Option<&dyn Adopt> {
        Some(self)
    }
}

#[async_trait]
impl Detached for KubernetesBackend {
    async fn get(&self, name: &str) -> Result<Found> {
        let found = self
            .launcher
            .with_registry(async |registry| registry.get(name).await)
            .await;
        if found
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::SandboxNotFound)
        {
            self.names.remove(name);
        }
        found
    }

    async fn list(&self) -> Result<Vec<SandboxInfo>> {
        self.launcher
            .with_registry(async |registry| registry.list().await)
            .await
    }

    async fn remove(&self, name: &str) -> Result<()> {
        let removed = self
            .launcher
            .with_registry(async |registry| registry.remove(name).await)
            .await;
        let is_missing = |error: &Error| error.kind() == ErrorKind::SandboxNotFound;
        if removed.as_ref().err().is_none_or(is_missing) {
            self.names.remove(name);
        }
        removed
    }

    fn recorded(&self) -> Result<Vec<RecordedSandbox>> {
        self.names.all()
    }

    async fn prune(&self) -> Result<Vec<String>> {
        self.launcher
            .with_cluster(async |cluster| sweep::sweep(&cluster).await)
            .await
    }
}

#[async_trait]
impl Adopt for KubernetesBackend {
    async fn assess_adopted(&self, container: &str, plan: &Plan) -> Result<EnforcementReport> {
        self.launcher
            .with_cluster(async |cluster| {
                let adoption = self.launcher.adoption(&cluster, container, plan).await?;
                Ok(adoption.report())
            })
            .await
    }

    async fn adopt(&self, container: &str, plan: &Plan) -> Result<Box<dyn Instance>> {
        let adopted = self
            .launcher
            .with_cluster(async |cluster| {
                let adoption = self.launcher.adoption(&cluster, container, plan).await?;
                adoption.enter(self.launcher.agent.program()).await
            })
            .await?;
        Ok(Box::new(adopted))
    }
}
