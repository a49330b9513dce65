//! The backend for one family of engines: from a plan to a sandbox whose agent answers.

mod draft;
mod images;

use std::marker::PhantomData;
use std::path::PathBuf;

use async_trait::async_trait;
use bollard::models::ImageInspect;
use sandbox_core::spi::{Backend, Finding, Found, Instance};
use sandbox_core::{
    BuildRequest, EnforcementReport, Error, ErrorKind, ImageInfo, ImagePattern, ImageProgress,
    ImageReference, ImageRetention, Plan, PullPolicy, Result, SandboxInfo,
};
use sandbox_host::seccomp::Arch;
use sandbox_host::{AgentInstance, Sandbox, WORK_FOLDER, state};
use sandbox_lang::packages::in_reach;
use tokio::sync::Mutex;

use crate::adopt::{Adoption, Found as Foreign};
use crate::applied;
use crate::config::ContainerConfig;
use crate::doctor;
use crate::engine::{Engine, EngineFacts};
use crate::folders::{self, check_nested};
use crate::image::{self, Brought, ImageFacts, Source};
use crate::isolator::{Container, ContainerIsolator};
use crate::kept::{self, HandOver, Registry, Store};
use crate::labels;
use crate::launch::Launch;
use crate::lower::{self, Parts};
use crate::packages::Provisioner;
use crate::quota::Trial;
use crate::remover;
use crate::sweep;
use crate::usual_paths::usual_paths;
use crate::volume::AgentVolume;
use crate::{OfFamily, Tier};

pub(crate) use draft::kernel;

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
    volume: AgentVolume,
    /// The engine, found on first use. Cleared when it becomes unavailable, so it is searched
    /// again.
    engine: Mutex<Option<Engine>>,
    /// The images that this backend pulled or built.
    brought: Brought,
    family: PhantomData<fn() -> F>,
}

impl<F: OfFamily> ContainerBackend<F> {
    /// The tier that applies the policy. Does not connect yet.
    #[must_use]
    pub fn new(config: ContainerConfig) -> Self {
        let form = F::FAMILY.profile_form;
        let volume = match &config.agent {
            Some(program) => AgentVolume::new(program.clone(), form),
            None => AgentVolume::ours(form),
        };
        Self {
            tier: F::FAMILY.confined(),
            config,
            applies_policy: true,
            volume,
            engine: Mutex::new(None),
            brought: Brought::default(),
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

    async fn engine(&self) -> Result<Engine> {
        let mut found = self.engine.lock().await;
        if let Some(engine) = &*found {
            return Ok(engine.clone());
        }
        let engine = Engine::find(self.tier, &self.config).await?;
        self.usable(&engine.facts)?;
        let (tier, swept) = (self.tier, engine.clone());
        tokio::spawn(async move {
            if let Some(error) = sweep::sweep(tier, &swept).await.failed {
                tracing::warn!(%tier, %error, "what killed owners left is not wholly removed");
            }
        });
        Ok(found.insert(engine).clone())
    }

    /// Refuses an engine that cannot run sandboxes.
    fn usable(&self, facts: &EngineFacts) -> Result<()> {
        let refused = |reason: String, fix: String| Err(Error::unavailable(self.tier, reason, fix));
        let native = Arch::native();
        if self.config.agent.is_none() && native != Arch::from_name(&facts.architecture) {
            let theirs = &facts.architecture;
            let reason =
                format!("the engine's architecture is {theirs:?}, the built-in agent's another");
            return refused(
                reason,
                "configure an agent that was built for the engine's architecture".into(),
            );
        }
        if self.volume.is_empty() {
            let reason = "this build has no agent (it was compiled for documentation only)".into();
            return refused(
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
            return refused(
                reason,
                "make it the engine's default (`runtime` in containers.conf)".into(),
            );
        }
        if !facts.runtime_known {
            let reason = format!("the engine has no runtime {:?}", facts.runtime);
            return refused(
                reason,
                format!(
                    "choose one of those that `{} info` names",
                    self.tier.family.command
                ),
            );
        }
        Ok(())
    }

    /// Forgets an unavailable engine: a different one may answer next time.
    async fn noticing<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && error.kind() == ErrorKind::SandboxUnavailable
        {
            *self.engine.lock().await = None;
        }
        result
    }

    /// Inspects a running container that this client did not create.
    async fn adoption<'a>(
        &self,
        engine: &'a Engine,
        container: &str,
        plan: &'a Plan,
    ) -> Result<Adoption<'a>> {
        sandbox_host::check_export_paths(&plan.export_paths)
            .map_err(|error| error.on(self.tier))?;
        let found = Foreign::look(self.tier, engine, container, plan).await?;
        let kernel = match self.applies_policy {
            true => Some(kernel(self.tier, &engine.facts)?),
            false => None,
        };
        let adoption = Adoption::new(self.tier, engine, plan, found, kernel)?;
        #[cfg(feature = "mutants")]
        if self.config.mutation == Some(crate::Mutation::Adoption) {
            return Ok(adoption.looking_at_mounts_alone());
        }
        Ok(adoption)
    }

    /// Refuses packages that cannot be installed.
    fn without_packages(&self, plan: &Plan, why: &str) -> Result<()> {
        if plan.packages.is_empty() {
            return Ok(());
        }
        // A policy may accept missing enforcement, but the packages would be missing as well.
        let error = Error::new(ErrorKind::Unsupported, "install packages", why);
        Err(error
            .on(self.tier)
            .with_fix("use an image or a container that has them"))
    }

    /// Creates the sandbox of a plan, with its packages.
    async fn build(&self, plan: &Plan, engine: &Engine) -> Result<AgentInstance> {
        let tier = self.tier;
        let image = image::find(tier, engine, &self.wanted(plan)?).await?;
        image::check_labels(tier, &image)?;
        if plan.packages.is_empty() {
            return self.place(plan, engine, &image, None).await;
        }
        if !self.applies_policy {
            self.without_packages(plan, "sandboxes that follow no policy get none")?;
        }
        let provisioner = Provisioner {
            backend: self,
            config: &self.config,
            tier,
            engine,
            image: &image,
        };
        let (provided, note) = provisioner.provide(plan).await?;
        let mut instance = self.place(&provided, engine, &image, None).await?;
        if let Some(note) = note {
            let mut report = instance.enforcement().clone();
            report.note(note);
            instance.set_enforcement(report);
        }
        Ok(instance)
    }

    /// What this engine would enforce for a plan.
    pub(crate) async fn assess_on(
        &self,
        plan: &Plan,
        engine: &Engine,
        trial: Trial,
    ) -> Result<EnforcementReport> {
        Ok(self.draft(plan, engine, trial).await?.report)
    }

    /// Creates the sandbox of a plan from this image. `network` replaces the engine's default
    /// network if the plan allows one.
    pub(crate) async fn place(
        &self,
        plan: &Plan,
        engine: &Engine,
        inspected: &ImageInspect,
        network: Option<&str>,
    ) -> Result<AgentInstance> {
        let tier = self.tier;
        let draft = self.draft(plan, engine, Trial::Allowed).await?;
        let source = Source::new(inspected);
        let image = ImageFacts::new(inspected);
        let volume = &self.volume;
        let hidden = self.hidden(plan)?;
        let folders = draft.folders;
        #[cfg(feature = "mutants")]
        let vouched = self.config.mutation != Some(crate::Mutation::Folders);
        #[cfg(not(feature = "mutants"))]
        let vouched = true;
        if vouched && draft.confined.is_some() {
            check_nested(tier, plan, &hidden)?;
            folders.vouch(tier, engine).await?;
        }
        let store = match plan.detached {
            true => Some(Store::prepare(tier, self.config.state_folder.as_deref())?),
            false => None,
        };
        let profile = match draft.confined {
            Some(_) if engine.facts.seccomp => volume.profile(tier, engine).await?,
            _ => None,
        };
        let usual = usual_paths(tier, engine, &self.config.options, &image.id).await?;
        let parts = Parts {
            tier,
            facts: &engine.facts,
            image: &image,
            volume: &volume.name,
            runtime: self.config.runtime.as_deref(),
            hidden: &hidden,
            usual: &usual,
            folders: &folders,
            network,
            profile: profile.as_deref(),
            options: &self.config.options,
        };
        let sandbox = Sandbox::new(plan, draft.confinement, draft.report)?;
        // The engine may run on another machine or in a virtual machine.
        let mut sandbox = sandbox.counting_memory_kills();
        if let Some(lifetime) = plan.lifetime {
            sandbox = sandbox.ending_after(lifetime);
        }
        let made = &mut sandbox.settings.make_dirs;
        let body = match &draft.confined {
            Some((storage, identity)) => {
                // Mounted folders exist already, and the rest of the root is read-only.
                made.retain(|folder| storage.covers(folder));
                if plan.writable_root && plan.workspace.is_none() {
                    made.push(WORK_FOLDER.into());
                }
                let lowered = lower::confined(plan, &parts, storage, *identity)?;
                #[cfg(feature = "mutants")]
                let lowered = match self.config.mutation {
                    Some(mutation) => mutation.of(lowered, &mut sandbox, inspected),
                    None => lowered,
                };
                sandbox.settings.give_dirs = lowered.give.into_iter().map(Into::into).collect();
                lowered.body
            }
            None => {
                made.push(WORK_FOLDER.into());
                lower::unconfined(plan, &parts)?
            }
        };
        let mut body = body;
        if let Some(written) = folders::label(&folders.written(plan)) {
            let labels = body.labels.get_or_insert_default();
            labels.insert(labels::WRITTEN.to_owned(), written);
        }
        if vouched && engine.facts.compares_folders() {
            sandbox.settings.placed = folders.placed(plan);
        }
        let user = body.user.clone().unwrap_or_default();
        let launch = Launch {
            tier,
            engine,
            volume,
            name: lower::container_name(&plan.name),
            body,
        };
        let (guard, stream) = launch.run().await?;
        let confined = draft.confined.is_some();
        if confined
            && let Err(error) = applied::note(tier, &mut sandbox.enforcement, guard.warnings())
        {
            return Err(match guard.remove(&engine.client).await {
                Ok(()) => error,
                Err(left) => error.with_source(left),
            });
        }
        let goes = plan.image_retention == ImageRetention::Remove;
        let goes = goes && self.brought.contains(&source.id);
        let goes = goes.then(|| source.id.clone());
        let guard = guard.with_image(goes.clone());
        let no_network = draft.confined.is_some() && !lower::has_network(plan);
        let isolator = ContainerIsolator::new(Container {
            tier,
            engine: engine.clone(),
            id: guard.container().to_owned(),
            guard: Some(guard),
            last_words: stream.last_words(),
            no_network,
            lifetime: plan.lifetime,
            store: store.clone(),
            source: Some(source),
            image: None,
        });
        if let Some(counts) = isolator.counts().await
            && draft.confined.is_some()
            && !self.lies()
        {
            let report = &mut sandbox.enforcement;
            applied::lower(report, counts, plan, &engine.facts, &launch.body).await;
        }
        let Some(store) = &store else {
            return AgentInstance::connect(stream, sandbox, Box::new(isolator)).await;
        };
        let hand_over = HandOver {
            tier,
            engine,
            store,
            plan,
            user,
            no_network,
            image: goes,
            isolator,
        };
        hand_over.finish(stream, sandbox).await
    }

    /// Whether a mutant is active, so that the report must not be compared with the container.
    fn lies(&self) -> bool {
        #[cfg(feature = "mutants")]
        return self.config.mutation.is_some();
        #[cfg(not(feature = "mutants"))]
        false
    }

    fn state_folder(&self) -> PathBuf {
        state::folder(self.config.state_folder.as_deref(), state::user())
    }

    /// The paths in a sandbox that would expose this user's keys or the shared package cache.
    fn hidden(&self, plan: &Plan) -> Result<Vec<String>> {
        if !kept::shows_the_host(plan) {
            return Ok(Vec::new());
        }
        let mut seen = kept::hidden(self.tier, plan, &self.state_folder())?;
        if !seen.is_empty() {
            // A missing folder cannot be covered, but may be created later.
            Store::prepare(self.tier, self.config.state_folder.as_deref())?;
        }
        let cache = in_reach(plan, &self.config.packages);
        if let Some(cache) = cache.map_err(|error| error.on(self.tier))? {
            seen.extend(kept::seen_at(plan, &cache));
        }
        Ok(seen)
    }

    /// Runs `act` with the detached sandboxes of this tier on its engine.
    async fn with_registry<T>(
        &self,
        act: impl AsyncFnOnce(Registry<'_>) -> Result<T>,
    ) -> Result<T> {
        let engine = self.engine().await?;
        let store = Store::found(self.tier, self.config.state_folder.as_deref())?;
        let registry = Registry {
            tier: self.tier,
            engine: &engine,
            store,
        };
        let done = act(registry).await;
        self.noticing(done).await
    }
}

#[async_trait]
impl<F: OfFamily> Backend for ContainerBackend<F> {
    fn name(&self) -> &str {
        self.tier.name
    }

    async fn assess(&self, plan: &Plan) -> Result<EnforcementReport> {
        let engine = self.engine().await?;
        self.assess_on(plan, &engine, Trial::No).await
    }

    async fn measure(&self, plan: &Plan) -> Result<EnforcementReport> {
        let engine = self.engine().await?;
        self.assess_on(plan, &engine, Trial::Allowed).await
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Instance>> {
        let engine = self.engine().await?;
        let built = self.build(plan, &engine).await;
        Ok(Box::new(self.noticing(built).await?))
    }

    fn keeps_detached(&self) -> bool {
        true
    }

    async fn get(&self, name: &str) -> Result<Found> {
        self.with_registry(async |registry| registry.get(name).await)
            .await
    }

    async fn list(&self) -> Result<Vec<SandboxInfo>> {
        self.with_registry(async |registry| registry.list().await)
            .await
    }

    async fn remove(&self, name: &str) -> Result<()> {
        self.with_registry(async |registry| registry.remove(name).await)
            .await
    }

    async fn prune(&self) -> Result<Vec<String>> {
        self.with_registry(async |registry| registry.prune(&self.volume).await)
            .await
    }

    async fn settle(&self) {
        remover::settled().await;
    }

    async fn assess_adopted(&self, container: &str, plan: &Plan) -> Result<EnforcementReport> {
        let engine = self.engine().await?;
        let adoption = self.adoption(&engine, container, plan).await;
        self.noticing(adoption)
            .await
            .map(|adoption| adoption.report())
    }

    async fn adopt(&self, container: &str, plan: &Plan) -> Result<Box<dyn Instance>> {
        self.without_packages(
            plan,
            "nothing is installed for a container that somebody else has made",
        )?;
        let engine = self.engine().await?;
        let adopted = async {
            let adoption = self.adoption(&engine, container, plan).await?;
            adoption.enter(self.volume.program()).await
        };
        let adopted = adopted.await;
        Ok(Box::new(self.noticing(adopted).await?))
    }

    async fn provide_image(&self, plan: &Plan, progress: &mut ImageProgress<'_>) -> Result<()> {
        self.provide(plan, progress).await
    }

    async fn pull_image(
        &self,
        reference: &ImageReference,
        pull: PullPolicy,
        progress: &mut ImageProgress<'_>,
    ) -> Result<ImageInfo> {
        self.pull(reference, pull, progress).await
    }

    async fn build_image(
        &self,
        request: &BuildRequest,
        allowed: Option<&[ImagePattern]>,
        progress: &mut ImageProgress<'_>,
    ) -> Result<ImageInfo> {
        self.make(request, allowed, progress).await
    }

    async fn images(&self) -> Result<Vec<ImageInfo>> {
        self.stock().await
    }

    async fn remove_image(&self, reference: &ImageReference) -> Result<()> {
        self.discard(reference).await
    }

    async fn diagnose(&self) -> Vec<Finding> {
        match self.engine().await {
            Ok(engine) => doctor::findings(self.tier, &engine, &self.config).await,
            Err(error) => vec![doctor::missing(&error)],
        }
    }

    async fn profile(&self) -> Result<Vec<(String, String)>> {
        Ok(doctor::profile(self.tier, &self.engine().await?.facts))
    }
}
