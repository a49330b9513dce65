//! Adopts running containers that this client did not create, without changing them.
//!
//! The agent's program is uploaded into a new folder at the container's root, and the engine
//! executes it there. Nothing is read through the upload endpoint. Once the agent answers, the
//! folder is removed again: the agent runs on without its file, so nothing is left behind.

mod found;
mod holes;
mod isolator;
mod masks;
mod planted;
mod report;

use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use sandbox_agent::protocol::Confinement;
use sandbox_core::{EnforcementReport, Error, ErrorKind, Plan, Result};
use sandbox_host::adopted::{AdoptedIsolator, CutStream};
use sandbox_host::confinement::{self, Isolation, Kernel, Mode, Paths, Profile};
use sandbox_host::{AgentInstance, Sandbox};

use crate::Tier;
use crate::engine::Engine;
use crate::error::{Operation, engine_error};
use crate::stream::AttachStream;

pub(crate) use found::Found;
use holes::{Hole, holes};
use isolator::Served;
use planted::Planted;

/// A container to adopt.
#[derive(Debug)]
pub(crate) struct Adoption<'a> {
    pub tier: Tier,
    pub engine: &'a Engine,
    pub plan: &'a Plan,
    pub found: Found,
    /// `None` without a policy.
    pub kernel: Option<Kernel>,
    /// Options that disable isolation.
    holes: Vec<Hole>,
}

impl<'a> Adoption<'a> {
    /// Prepares the adoption.
    ///
    /// # Errors
    ///
    /// `Unsupported` if a policy applies and code would be user 0 of the host with access to kernel
    /// files: it could control the host.
    pub(crate) fn new(
        tier: Tier,
        engine: &'a Engine,
        plan: &'a Plan,
        found: Found,
        kernel: Option<Kernel>,
    ) -> Result<Self> {
        let adoption = Self {
            tier,
            engine,
            plan,
            holes: holes(&found),
            found,
            kernel,
        };
        adoption.check_root()?;
        Ok(adoption)
    }

    /// A mutant: checks only for `privileged` and mounts.
    #[cfg(feature = "mutants")]
    pub(crate) fn looking_at_mounts_alone(mut self) -> Self {
        self.holes
            .retain(|hole| hole.name.contains("is privileged"));
        self
    }

    fn check_root(&self) -> Result<()> {
        let facts = &self.engine.facts;
        let namespace = facts.rootless
            || (facts.user_namespace && self.found.host.userns_mode.as_deref() != Some("host"));
        let (Some(unmasked), Some(_)) = (&self.found.unmasked, &self.kernel) else {
            return Ok(());
        };
        if namespace || !Found::is_root(&self.user()) {
            return Ok(());
        }
        let context = format!(
            "code would be user 0 of the host in a container with {unmasked}: it could change the host's kernel"
        );
        let error = Error::new(ErrorKind::Unsupported, "adopt container", context);
        Err(error.on(self.tier).with_fix(
            "name another user, or start the container with the engine's masks (not privileged, without `systempaths=unconfined` or `unmask`)",
        ))
    }

    /// Reports what is enforced in the container.
    pub(crate) fn report(&self) -> EnforcementReport {
        match &self.kernel {
            Some(kernel) => {
                report::report(self.plan, &self.found, self.engine, kernel, &self.holes)
            }
            None => EnforcementReport::nothing(&format!("{} applies no policy", self.tier)),
        }
    }

    /// Uploads and starts the agent.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a container that cannot take an upload, else errors of the engine or the
    /// agent. Nothing is left in the container then.
    pub(crate) async fn enter(self, program: &[u8]) -> Result<AgentInstance> {
        let Self { tier, engine, .. } = self;
        let sandbox = self.sandbox()?;
        let planted = Planted::put(tier, engine, &self.found, program).await?;
        let entered = self.start(&planted, sandbox).await;
        let removed = planted.remove().await;
        let instance = entered?;
        removed?;
        Ok(instance)
    }

    async fn start(&self, planted: &Planted, sandbox: Sandbox) -> Result<AgentInstance> {
        let (tier, engine) = (self.tier, self.engine);
        let refused = |error| engine_error(tier, Operation::Adopt, error);
        let options = CreateExecOptions {
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(false),
            cmd: Some(vec![planted.program(), "serve".into(), "--stdio".into()]),
            user: Some(self.user()),
            working_dir: Some("/".into()),
            ..CreateExecOptions::default()
        };
        let execution = engine
            .client
            .create_exec(&self.found.id, options)
            .await
            .map_err(refused)?
            .id;
        let attached = engine
            .client
            .start_exec(&execution, None::<StartExecOptions>)
            .await
            .map_err(refused)?;
        let StartExecResults::Attached { output, input } = attached else {
            let context = "the engine gives no stream to what it executes";
            return Err(Error::new(ErrorKind::Protocol, "adopt container", context).on(tier));
        };
        let stream = AttachStream::new(output, input);
        let served = Served {
            tier,
            engine: engine.clone(),
            container: self.found.id.clone(),
            execution,
            last_words: stream.last_words(),
        };
        let (stream, cut) = CutStream::new(stream);
        let isolator = AdoptedIsolator::new(served, cut, self.plan.lifetime);
        AgentInstance::connect(stream, sandbox, Box::new(isolator)).await
    }

    /// The user of the agent and the code: separate users would need capabilities that few
    /// containers have.
    fn user(&self) -> String {
        match self.plan.user {
            Some((user, group)) => format!("{user}:{group}"),
            None => self.found.user.clone(),
        }
    }

    fn sandbox(&self) -> Result<Sandbox> {
        let confinement = match &self.kernel {
            None => Confinement {
                umask: crate::backend::UMASK,
                ..Confinement::default()
            },
            Some(kernel) => {
                let paths = Paths::of(self.plan, Isolation::Container);
                let profile = Profile::new(Isolation::Container, paths);
                confinement::confinement(self.plan, kernel, Mode::Shared, &profile)
            }
        };
        let mut sandbox = Sandbox::new(self.plan, confinement, self.report())?;
        // The foreign container's files stay unchanged.
        sandbox.settings.make_dirs = Vec::new();
        if self.plan.workdir.is_none() {
            sandbox.settings.workdir = self.found.workdir.clone().into_bytes();
        }
        Ok(sandbox)
    }
}
