//! Creates the sandbox of a plan: packages, container, verification and hand-over.

use bollard::models::{ContainerCreateBody, ImageInspect};
use sandbox_core::spi::Instance as _;
use sandbox_core::{EnforcementReport, ImageRetention, Plan, Result};
use sandbox_host::confinement::Mode;
use sandbox_host::{AgentInstance, Sandbox, WORK_FOLDER, state};
use sandbox_lang::packages::writable_cache;

use super::ContainerBackend;
use super::container_plan::ContainerPlan;
use crate::EngineFamily;
use crate::conda;
use crate::default_paths::default_paths;
use crate::detached::{self, NewDetached, RecordStore};
use crate::egress;
use crate::engine::Engine;
use crate::folders::{self, check_nested};
use crate::image::{self, ImageFacts, SourceImage, UserFiles};
use crate::isolator::{ContainerIsolator, RunningContainer};
use crate::labels;
use crate::launch::Launch;
use crate::lowering::{self, SpecInputs};
use crate::named_volumes;
use crate::packages::Provisioner;
use crate::quota::QuotaTrial;
use crate::verify;
use crate::volume::AgentVolume;

impl<F: EngineFamily> ContainerBackend<F> {
    /// Creates the sandbox of a plan, with its packages.
    pub(super) async fn create_with_packages(
        &self,
        plan: &Plan,
        engine: &Engine,
    ) -> Result<AgentInstance> {
        let tier = self.tier;
        let image = image::find(tier, engine, &self.requested_image(plan)?).await?;
        image::check_labels(tier, &image)?;
        if plan.packages.is_empty() {
            return self.create_sandbox(plan, engine, &image, None).await;
        }
        if !self.applies_policy {
            self.refuse_packages(plan, "sandboxes that follow no policy get none")?;
        }
        let provisioner = Provisioner {
            backend: self,
            config: &self.config,
            tier,
            engine,
            image: &image,
        };
        let (plan, notes) = provisioner.provide(plan).await?;
        let mut instance = self.create_sandbox(&plan, engine, &image, None).await?;
        if !notes.is_empty() {
            let mut report = instance.enforcement().clone();
            for note in notes {
                report.note(note);
            }
            instance.set_enforcement(report);
        }
        Ok(instance)
    }

    /// What this engine would enforce for a plan.
    pub(crate) async fn assess_on(
        &self,
        plan: &Plan,
        engine: &Engine,
        trial: QuotaTrial,
    ) -> Result<EnforcementReport> {
        Ok(self.plan_container(plan, engine, trial).await?.report)
    }

    /// Creates the sandbox of a plan from this image. `network` replaces the engine's default
    /// network if the plan allows one.
    pub(crate) async fn create_sandbox(
        &self,
        plan: &Plan,
        engine: &Engine,
        inspected: &ImageInspect,
        network: Option<&str>,
    ) -> Result<AgentInstance> {
        let tier = self.tier;
        // Its host folders stay open until the agent has compared them.
        let container_plan = self
            .plan_container(plan, engine, QuotaTrial::Allowed)
            .await?;
        let is_confined = container_plan.confined.is_some();
        let source = SourceImage::new(inspected);
        let hidden = self.hidden_paths(plan)?;
        named_volumes::check(tier, engine, plan).await?;
        if is_confined && self.checks_folders() {
            check_nested(tier, plan, &hidden)?;
            container_plan.folders.check_file_systems(tier, plan)?;
            container_plan.folders.check_trusted(tier, engine).await?;
        }
        let store = match plan.detached {
            true => Some(RecordStore::prepare(
                tier,
                self.config.state_folder.as_deref(),
            )?),
            false => None,
        };
        let (mut sandbox, body, volume) = self
            .lower_plan(plan, engine, inspected, &container_plan, &hidden, network)
            .await?;
        let user = body.user.clone().unwrap_or_default();
        let launch = Launch {
            tier,
            engine,
            volume: &volume,
            name: lowering::container_name(&plan.name),
            body,
        };
        let (guard, stream) = launch.run().await?;
        if is_confined
            && let Err(error) =
                verify::apply_warnings(tier, &mut sandbox.enforcement, guard.warnings())
        {
            return Err(match guard.remove(&engine.client).await {
                Ok(()) => error,
                Err(removal_error) => error.with_source(removal_error),
            });
        }
        let removes_image =
            plan.image_retention == ImageRetention::Remove && self.pulled.contains(&source.id);
        let image = removes_image.then(|| source.id.clone());
        let guard = guard.with_image(image.clone());
        let no_network = is_confined && !lowering::has_network(plan);
        let isolator = ContainerIsolator::new(RunningContainer {
            tier,
            engine: engine.connection.clone(),
            id: guard.container().to_owned(),
            guard: Some(guard),
            stderr_tail: stream.stderr_tail(),
            no_network,
            lifetime: plan.lifetime,
            store: store.clone(),
            source: Some(source),
            image: None,
        });
        if let Some(cgroups) = isolator.cgroups().await
            && is_confined
            && !self.has_mutation()
        {
            let report = &mut sandbox.enforcement;
            verify::weaken_report(report, cgroups, plan, &engine.facts, &launch.body).await;
        }
        let Some(store) = &store else {
            return AgentInstance::connect(stream, sandbox, Box::new(isolator)).await;
        };
        let detached = NewDetached {
            store,
            plan,
            user,
            image,
            isolator,
            egress: self.config.egress(),
        };
        detached.hand_over(stream, sandbox).await
    }

    /// Converts a plan to the agent's settings and the engine's request.
    async fn lower_plan(
        &self,
        plan: &Plan,
        engine: &Engine,
        inspected: &ImageInspect,
        container_plan: &ContainerPlan,
        hidden: &[String],
        network: Option<&str>,
    ) -> Result<(Sandbox, ContainerCreateBody, AgentVolume)> {
        let tier = self.tier;
        let image = ImageFacts::new(inspected);
        let folders = &container_plan.folders;
        let users = match &container_plan.confined {
            Some((_, identity)) if identity.mode() != Mode::Shared => {
                let state_folder = self.config.state_folder.as_deref();
                UserFiles::of(tier, engine, &image.id, identity.code, state_folder).await?
            }
            _ => UserFiles::default(),
        };
        let volume = self.volume().with_users(users);
        let user_mounts = match volume == *self.volume() {
            true => Vec::new(),
            false => volume.user_mounts(&volume.host_folder(tier, engine).await?),
        };
        let profile = match container_plan.confined {
            Some(_) if engine.facts.seccomp => volume.profile(tier, engine).await?,
            _ => None,
        };
        let default_paths = default_paths(tier, engine, &self.config.options, &image.id).await?;
        let name_files = match container_plan.confined {
            Some(_) if !lowering::has_network(plan) => {
                Some(volume.host_folder(tier, engine).await?)
            }
            _ => None,
        };
        let inputs = SpecInputs {
            tier,
            facts: &engine.facts,
            image: &image,
            volume: &volume.name,
            runtime: self.config.runtime.as_deref(),
            hidden,
            default_paths: &default_paths,
            folders,
            network,
            profile: profile.as_deref(),
            options: &self.config.options,
            name_files: name_files.as_deref(),
            user_mounts: &user_mounts,
        };
        let sandbox = Sandbox::new(
            plan,
            container_plan.confinement.clone(),
            container_plan.report.clone(),
        )?;
        // The engine may run on another machine or in a virtual machine.
        let mut sandbox = sandbox.counting_memory_kills();
        if let Some(environment) = &self.config.conda {
            sandbox = conda::enter(tier, environment, plan, sandbox)?;
        }
        if let Some(lifetime) = plan.lifetime {
            sandbox = sandbox.ending_after(lifetime);
        }
        if container_plan.confined.is_some() && egress::carries_rules(plan, &engine.facts) {
            sandbox = sandbox.with_egress(plan, self.config.egress())?;
        }
        let make_dirs = &mut sandbox.settings.make_dirs;
        let mut body = match &container_plan.confined {
            Some((storage, identity)) => {
                if plan.writable_root && plan.workspace.is_none() {
                    make_dirs.push(WORK_FOLDER.into());
                }
                let lowered = lowering::confined(plan, &inputs, storage, *identity)?;
                #[cfg(feature = "mutants")]
                let lowered = match self.config.mutation {
                    Some(mutation) => mutation.apply(lowered, &mut sandbox, inspected),
                    None => lowered,
                };
                let chown_dirs = lowered.chown_dirs.into_iter();
                sandbox.settings.chown_dirs = chown_dirs.map(Into::into).collect();
                lowered.body
            }
            None => {
                make_dirs.push(WORK_FOLDER.into());
                lowering::unconfined(plan, &inputs)?
            }
        };
        if let Some(value) = folders::encode_folders(&folders.writable_folders(plan)) {
            let labels = body.labels.get_or_insert_default();
            labels.insert(labels::WRITABLE_FOLDERS.to_owned(), value);
        }
        if self.checks_folders() && engine.facts.compares_folders() {
            sandbox.settings.expected_objects = folders.expected_objects(plan);
        }
        Ok((sandbox, body, volume))
    }

    /// Whether host folders are checked before and after their mount: always, except in a mutant.
    fn checks_folders(&self) -> bool {
        #[cfg(feature = "mutants")]
        return self.config.mutation != Some(crate::ContainerMutation::Folders);
        #[cfg(not(feature = "mutants"))]
        true
    }

    /// Whether a mutant is active, so that the report must not be compared with the container.
    fn has_mutation(&self) -> bool {
        #[cfg(feature = "mutants")]
        return self.config.mutation.is_some();
        #[cfg(not(feature = "mutants"))]
        false
    }

    /// The paths in a sandbox that would expose this user's keys or the shared package cache.
    fn hidden_paths(&self, plan: &Plan) -> Result<Vec<String>> {
        if !detached::mounts_host_folders(plan) {
            return Ok(Vec::new());
        }
        let configured = self.config.state_folder.as_deref();
        let state_folder = state::folder(configured, state::user());
        let mut paths = detached::state_folder_paths(self.tier, plan, &state_folder)?;
        if !paths.is_empty() {
            // A missing folder cannot be covered, but may be created later.
            RecordStore::prepare(self.tier, configured)?;
        }
        let cache = writable_cache(plan, &self.config.packages);
        if let Some(cache) = cache.map_err(|error| error.on(self.tier))? {
            paths.extend(detached::paths_showing(plan, &cache));
        }
        Ok(paths)
    }
}
