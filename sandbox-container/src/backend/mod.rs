//! The backend for one family of engines: from a plan to a sandbox whose agent answers.

mod container_plan;
mod create_sandbox;
#[cfg(feature = "foreign")]
mod foreign;
mod images;

use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use sandbox_core::spi::{
    Adopt, Backend, Detached, Finding, Found, Images, Instance, RecordedSandbox,
};
use sandbox_core::{EnforcementReport, Error, ErrorKind, Plan, Result, SandboxInfo};
use sandbox_host::EngineCell;
use sandbox_host::seccomp::Arch;
use sandbox_lang::packages::FailedPackages;

use crate::adopt::{Adoption, ForeignContainer};
use crate::attached;
use crate::background_removal::REMOVER;
use crate::config::ContainerConfig;
use crate::detached::{DetachedRegistry, RecordStore};
use crate::doctor;
use crate::engine::{Engine, EngineConnection, EngineFacts};
use crate::image::PulledImages;
use crate::quota::QuotaTrial;
use crate::sweep;
use crate::volume::AgentVolume;
use crate::{EngineFamily, Tier};

pub(crate) use container_plan::kernel;

/// The umask of code without a policy: the usual default.
pub(crate) const UMASK: u32 = 0o022;

/// Sandboxes as containers of an engine of the family `F`.
///
/// Each backend defines an alias: `pub type DockerBackend = ContainerBackend<Docker>`.
#[derive(Debug)]
pub struct ContainerBackend<F> {
    tier: Tier,
    config: ContainerConfig,
    applies_policy: bool,
    /// Made by the first creation: other requests need neither its hash nor its profile.
    volume: OnceLock<AgentVolume>,
    engine: EngineCell<Engine>,
    /// For later clients of detached sandboxes, which need no description of the engine.
    connection: EngineCell<EngineConnection>,
    /// Whether leftovers of killed owners were looked for.
    swept: AtomicBool,
    /// The images that this backend pulled or built.
    pulled: PulledImages,
    /// The sets of packages that failed to install.
    pub(crate) failed_packages: FailedPackages,
    family: PhantomData<fn() -> F>,
}

impl<F: EngineFamily> ContainerBackend<F> {
    /// The tier that applies the policy. Does not connect yet.
    #[must_use]
    pub fn new(config: ContainerConfig) -> Self {
        Self {
            tier: F::FAMILY.confined(),
            config,
            applies_policy: true,
            volume: OnceLock::new(),
            engine: EngineCell::default(),
            connection: EngineCell::default(),
            swept: AtomicBool::new(false),
            pulled: PulledImages::default(),
            failed_packages: FailedPackages::default(),
            family: PhantomData,
        }
    }

    /// The tier without a policy: containers with the engine's defaults. Does not connect yet.
    #[must_use]
    pub fn without_policy(config: ContainerConfig) -> Self {
        Self {
            tier: F::FAMILY.unconfined(),
            applies_policy: false,
            ..Self::new(config)
        }
    }

    fn volume(&self) -> &AgentVolume {
        let form = F::FAMILY.profile_form;
        self.volume.get_or_init(|| match &self.config.agent {
            Some(program) => AgentVolume::new(program.clone(), form),
            None => AgentVolume::built_in(form),
        })
    }

    async fn engine(&self) -> Result<Engine> {
        self.engine.get(self.find_engine()).await
    }

    /// Calls `act` with the engine, and forgets an engine that was unavailable.
    async fn with_engine<T>(&self, act: impl AsyncFnOnce(Engine) -> Result<T>) -> Result<T> {
        self.engine.run(self.find_engine(), act).await
    }

    /// Finds the engine and starts to remove what killed owners left there.
    async fn find_engine(&self) -> Result<Engine> {
        let engine = Engine::find(self.tier, &self.config).await?;
        self.check_usable(&engine.facts)?;
        self.sweep_soon(&engine.connection);
        Ok(engine)
    }

    /// Starts to remove what killed owners left on an engine.
    fn sweep_soon(&self, connection: &EngineConnection) {
        self.swept.store(true, Ordering::Relaxed);
        let (tier, connection) = (self.tier, connection.clone());
        tokio::spawn(async move {
            if let Some(error) = sweep::sweep(tier, &connection).await.failed {
                tracing::warn!(%tier, %error, "cannot remove all leftovers of killed owners");
            }
        });
    }

    /// A connection to the engine, without asking it for its description.
    async fn find_connection(&self) -> Result<EngineConnection> {
        match self.engine.known() {
            Some(engine) => Ok(engine.connection),
            None => EngineConnection::find(self.tier, &self.config).await,
        }
    }

    /// Refuses an engine that cannot run sandboxes.
    fn check_usable(&self, facts: &EngineFacts) -> Result<()> {
        let refuse = |reason: String, fix: String| Err(Error::unavailable(self.tier, reason, fix));
        let native = Arch::native();
        if self.config.agent.is_none() && native != Arch::from_name(&facts.architecture) {
            let architecture = &facts.architecture;
            let reason = format!(
                "the engine's architecture is {architecture:?}, the built-in agent is for another one"
            );
            return refuse(
                reason,
                "configure an agent that was built for the engine's architecture".into(),
            );
        }
        let built_in = sandbox_agent::program();
        if self.config.agent.as_deref().unwrap_or(built_in).is_empty() {
            let reason = "this build has no agent (it was compiled for documentation only)".into();
            return refuse(
                reason,
                "build with a C linker for Linux on x86_64 or aarch64".into(),
            );
        }
        let family = self.tier.family;
        if !family.chooses_runtime && facts.runtime != facts.default_runtime {
            let reason = format!(
                "{} takes no runtime from a request and would use its own, {}, instead of {:?}",
                family.engine, facts.default_runtime, facts.runtime
            );
            return refuse(
                reason,
                "make it the engine's default (`runtime` in containers.conf)".into(),
            );
        }
        if !facts.runtime_known {
            let reason = format!("the engine has no runtime {:?}", facts.runtime);
            return refuse(
                reason,
                format!(
                    "choose one of those that `{} info` names",
                    self.tier.family.command
                ),
            );
        }
        Ok(())
    }

    /// Inspects a running container that this client did not create.
    async fn prepare_adoption<'a>(
        &'a self,
        engine: &'a Engine,
        container: &str,
        plan: &'a Plan,
    ) -> Result<Adoption<'a>> {
        sandbox_host::check_export_paths(&plan.export_paths)
            .map_err(|error| error.on(self.tier))?;
        let container = ForeignContainer::inspect(self.tier, engine, container, plan).await?;
        let kernel = match self.applies_policy {
            true => Some(kernel(self.tier, &engine.facts)?),
            false => None,
        };
        let adoption = Adoption::new(
            self.tier,
            engine,
            plan,
            container,
            kernel,
            self.config.conda.as_deref(),
        )?;
        #[cfg(feature = "mutants")]
        if self.config.mutation == Some(crate::ContainerMutation::Adoption) {
            return Ok(adoption.ignoring_most_holes());
        }
        Ok(adoption)
    }

    /// Refuses packages that cannot be installed.
    fn refuse_packages(&self, plan: &Plan, reason: &str) -> Result<()> {
        if plan.packages.is_empty() {
            return Ok(());
        }
        // A policy may accept missing enforcement, but the packages would be missing as well.
        let error = Error::new(ErrorKind::Unsupported, "install packages", reason);
        Err(error
            .on(self.tier)
            .with_fix("use an image or a container that has them"))
    }

    /// Runs `act` with the detached sandboxes of this tier on its engine.
    async fn with_registry<T>(
        &self,
        act: impl AsyncFnOnce(DetachedRegistry<'_>) -> Result<T>,
    ) -> Result<T> {
        let act = async |connection: EngineConnection| {
            let registry = DetachedRegistry {
                tier: self.tier,
                engine: &connection,
                store: self.record_store()?,
                egress: self.config.egress(),
            };
            act(registry).await
        };
        self.connection.run(self.find_connection(), act).await
    }

    /// Starts to remove what killed owners left, unless this backend has done so.
    async fn sweep_once(&self) -> Result<()> {
        let connection = self.connection.get(self.find_connection()).await?;
        if !self.swept.load(Ordering::Relaxed) {
            self.sweep_soon(&connection);
        }
        Ok(())
    }

    /// This user's records of detached sandboxes, if any.
    fn record_store(&self) -> Result<Option<RecordStore>> {
        RecordStore::open_existing(self.tier, self.config.state_folder.as_deref())
    }
}

#[async_trait]
impl<F: EngineFamily> Backend for ContainerBackend<F> {
    fn name(&self) -> &str {
        self.tier.name
    }

    async fn assess(&self, plan: &Plan) -> Result<EnforcementReport> {
        let engine = self.engine().await?;
        self.assess_on(plan, &engine, QuotaTrial::CachedOnly).await
    }

    async fn measure(&self, plan: &Plan) -> Result<EnforcementReport> {
        let engine = self.engine().await?;
        self.assess_on(plan, &engine, QuotaTrial::Allowed).await
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Instance>> {
        let created = self
            .with_engine(async |engine| self.create_with_packages(plan, &engine).await)
            .await?;
        Ok(Box::new(created))
    }

    fn clear_failed_packages(&self) {
        self.failed_packages.clear();
    }

    async fn settle(&self) {
        REMOVER.settled().await;
    }

    async fn diagnose(&self) -> Vec<Finding> {
        match self.engine().await {
            Ok(engine) => doctor::findings(self.tier, &engine, &self.config).await,
            Err(error) => vec![doctor::engine_missing(&error)],
        }
    }

    async fn profile(&self) -> Result<Vec<(String, String)>> {
        Ok(doctor::profile(self.tier, &self.engine().await?.facts))
    }

    async fn attached(&self) -> Result<Vec<SandboxInfo>> {
        self.with_engine(async |engine| attached::list(self.tier, &engine).await)
            .await
    }

    fn images(&self) -> Option<&dyn Images> {
        Some(self)
    }

    fn detached(&self) -> Option<&dyn Detached> {
        Some(self)
    }

    fn adoption(&self) -> Option<&dyn Adopt> {
        Some(self)
    }
}

#[async_trait]
impl<F: EngineFamily> Detached for ContainerBackend<F> {
    async fn get(&self, name: &str) -> Result<Found> {
        self.with_registry(async |registry| registry.get(name).await)
            .await
    }

    async fn list(&self) -> Result<Vec<SandboxInfo>> {
        self.sweep_once().await?;
        self.with_registry(async |registry| registry.list().await)
            .await
    }

    async fn remove(&self, name: &str) -> Result<()> {
        self.sweep_once().await?;
        self.with_registry(async |registry| registry.remove(name).await)
            .await
    }

    async fn prune(&self) -> Result<Vec<String>> {
        self.with_registry(async |registry| registry.prune(self.volume()).await)
            .await
    }

    fn recorded(&self) -> Result<Vec<RecordedSandbox>> {
        let records = match self.record_store()? {
            Some(store) => store.records_of_tier()?,
            None => Vec::new(),
        };
        let names = records.into_iter().map(|record| record.plan.name);
        Ok(names.map(RecordedSandbox::new).collect())
    }
}

#[async_trait]
impl<F: EngineFamily> Adopt for ContainerBackend<F> {
    async fn assess_adopted(&self, container: &str, plan: &Plan) -> Result<EnforcementReport> {
        self.with_engine(async |engine| {
            let adoption = self.prepare_adoption(&engine, container, plan).await?;
            Ok(adoption.report())
        })
        .await
    }

    async fn adopt(&self, container: &str, plan: &Plan) -> Result<Box<dyn Instance>> {
        self.refuse_packages(plan, "packages cannot be installed in an adopted container")?;
        let adopted = self
            .with_engine(async |engine| {
                let adoption = self.prepare_adoption(&engine, container, plan).await?;
                adoption.enter(self.volume().program()).await
            })
            .await?;
        Ok(Box::new(adopted))
    }
}
