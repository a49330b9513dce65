//! Adopts running containers that this client did not create, without changing them.
//!
//! The agent's program is uploaded into a new folder at the container's root, and the engine
//! executes it there. Nothing is read through the upload endpoint. Once the agent answers, the
//! folder is removed again: the agent runs on without its file, so nothing is left behind.

mod foreign_container;
mod holes;
mod masks;
mod report;
mod running_agent;
mod uploaded_program;

use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use sandbox_agent::protocol::Confinement;
use sandbox_core::{EnforcementReport, Error, ErrorKind, Plan, Result};
use sandbox_host::adopted::{self, AdoptedIsolator, ClosableStream};
use sandbox_host::confinement::Kernel;
use sandbox_host::{AgentInstance, Sandbox};

use crate::Tier;
use crate::conda;
use crate::engine::Engine;
use crate::error::{Operation, engine_error};
use crate::stream::AttachStream;

pub(crate) use foreign_container::ForeignContainer;
use holes::{Hole, holes};
use running_agent::RunningAgent;
use uploaded_program::UploadedProgram;

/// A container to adopt.
#[derive(Debug)]
pub(crate) struct Adoption<'a> {
    pub tier: Tier,
    pub engine: &'a Engine,
    pub plan: &'a Plan,
    pub container: ForeignContainer,
    /// `None` without a policy.
    pub kernel: Option<Kernel>,
    /// The conda environment of programs.
    pub conda: Option<&'a str>,
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
        container: ForeignContainer,
        kernel: Option<Kernel>,
        conda: Option<&'a str>,
    ) -> Result<Self> {
        let adoption = Self {
            tier,
            engine,
            plan,
            holes: holes(&container),
            container,
            kernel,
            conda,
        };
        adoption.check_root()?;
        Ok(adoption)
    }

    /// A mutant: checks only for `privileged` and mounts.
    #[cfg(feature = "mutants")]
    pub(crate) fn ignoring_most_holes(mut self) -> Self {
        self.holes
            .retain(|hole| hole.name.contains("is privileged"));
        self
    }

    fn check_root(&self) -> Result<()> {
        let facts = &self.engine.facts;
        let namespace = facts.rootless
            || (facts.user_namespace && self.container.host.userns_mode.as_deref() != Some("host"));
        let (Some(unmasked), Some(_)) = (&self.container.unmasked, &self.kernel) else {
            return Ok(());
        };
        if namespace || !ForeignContainer::is_root(&self.user()) {
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
                report::report(self.plan, &self.container, self.engine, kernel, &self.holes)
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
        let installed = UploadedProgram::install(tier, engine, &self.container, program).await?;
        installed
            .start(async |program| self.start(program, sandbox).await)
            .await
    }

    async fn start(&self, program: &UploadedProgram, sandbox: Sandbox) -> Result<AgentInstance> {
        let (tier, engine) = (self.tier, self.engine);
        let refused = |error| engine_error(tier, Operation::Adopt, error);
        let options = CreateExecOptions {
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(false),
            cmd: Some(vec![program.path(), "serve".into(), "--stdio".into()]),
            user: Some(self.user()),
            working_dir: Some("/".into()),
            ..CreateExecOptions::default()
        };
        let execution = engine
            .client
            .create_exec(&self.container.id, options)
            .await
            .map_err(refused)?
            .id;
        let attached = engine
            .client
            .start_exec(&execution, None::<StartExecOptions>)
            .await
            .map_err(refused)?;
        let StartExecResults::Attached { output, input } = attached else {
            let context = "the engine returned no stream for the agent's exec";
            return Err(Error::new(ErrorKind::Protocol, "adopt container", context).on(tier));
        };
        let stream = AttachStream::new(output, input);
        let served = RunningAgent {
            tier,
            engine: engine.clone(),
            container: self.container.id.clone(),
            execution,
            stderr_tail: stream.stderr_tail(),
        };
        let (stream, cut) = ClosableStream::new(stream);
        let isolator = AdoptedIsolator::new(served, cut, self.plan.lifetime);
        AgentInstance::connect(stream, sandbox, Box::new(isolator)).await
    }

    /// The user of the agent and the code: separate users would need capabilities that few
    /// containers have.
    fn user(&self) -> String {
        match self.plan.user {
            Some((user, group)) => format!("{user}:{group}"),
            None => self.container.user.clone(),
        }
    }

    fn sandbox(&self) -> Result<Sandbox> {
        let confinement = match &self.kernel {
            None => Confinement {
                umask: crate::backend::UMASK,
                ..Confinement::default()
            },
            Some(kernel) => adopted::confinement(self.plan, kernel),
        };
        let workdir = &self.container.workdir;
        let sandbox = adopted::sandbox(self.plan, confinement, self.report(), workdir)?;
        match self.conda {
            Some(environment) => conda::enter(self.tier, environment, self.plan, sandbox),
            None => Ok(sandbox),
        }
    }
}
