//! The way of a later client to an agent: a process in its container, which the engine starts and which carries bytes to the
//! agent's socket.

use std::time::Duration;

use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::{AgentInstance, AttachedSandbox, Key};

use crate::Tier;
use crate::engine::Engine;
use crate::error::{Operation, engine_error};
use crate::isolator::ContainerIsolator;
use crate::stream::AttachStream;
use crate::volume::{AGENT, SOCKET};

/// How often the engine is asked to start the process. It needs a few processes and some memory of the container for a moment, which
/// code that uses all there is may not leave it.
const ATTEMPTS: u32 = 5;

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// Who wants to become a client, and of what.
#[derive(Debug)]
pub(crate) struct Reconnection<'a> {
    pub(crate) tier: Tier,
    pub(crate) engine: &'a Engine,
    /// The container's id.
    pub(crate) container: &'a str,
    /// As whom the agent runs.
    pub(crate) user: &'a str,
    pub(crate) key: &'a Key,
}

impl Reconnection<'_> {
    /// Becomes a client of the agent. The sandbox is left as it is where that fails.
    ///
    /// # Errors
    ///
    /// `SandboxEnded` where it has, `SandboxUnavailable` without an engine, and as [`AgentInstance::attach`].
    pub(crate) async fn attach(
        &self,
        sandbox: AttachedSandbox,
        isolator: &ContainerIsolator,
    ) -> Result<AgentInstance> {
        let mut attempt = 1;
        loop {
            let (process, stream) = self.open().await?;
            isolator.listen_to(stream.last_words());
            let boxed = Box::new(isolator.clone());
            let attached = AgentInstance::attach(stream, self.key, sandbox.clone(), boxed).await;
            let error = match attached {
                Ok(instance) => return Ok(instance),
                Err(error) => error,
            };
            if !self.was_refused(&process).await {
                return Err(error);
            }
            if attempt == ATTEMPTS {
                let context = format!(
                    "the engine could not start a process in the container ({ATTEMPTS} times)"
                );
                return Err(Error::new(ErrorKind::Io, Operation::Exec.phrase(), context)
                    .on(self.tier)
                    .with_fix("code that uses all processes or memory of the sandbox leaves none for it: wait, or end the sandbox with `sandbox rm`"));
            }
            attempt += 1;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn open(&self) -> Result<(String, AttachStream)> {
        let failed = |error| engine_error(self.tier, Operation::Exec, error);
        let client = &self.engine.client;
        let options = CreateExecOptions {
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(false),
            user: Some(self.user),
            working_dir: Some("/"),
            // The key is the first thing that goes over the stream: what is said here, the engine shows to all its users.
            cmd: Some(vec![AGENT, "connect", SOCKET]),
            ..CreateExecOptions::default()
        };
        let created = client.create_exec(self.container, options).await;
        let process = created.map_err(failed)?.id;
        let options = StartExecOptions::default();
        match client
            .start_exec(&process, Some(options))
            .await
            .map_err(failed)?
        {
            StartExecResults::Attached { output, input } => {
                Ok((process, AttachStream::new(output, input)))
            }
            StartExecResults::Detached => {
                let context = "the engine gave no stream to the process";
                Err(Error::new(ErrorKind::Io, Operation::Exec.phrase(), context).on(self.tier))
            }
        }
    }

    /// Whether the process has ended as one does that was never there: the codes of engines for what they could not start.
    async fn was_refused(&self, process: &str) -> bool {
        let found = self.engine.client.inspect_exec(process).await;
        // An engine that does not answer any more has refused nothing.
        found.is_ok_and(|found| matches!(found.exit_code, Some(126 | 127 | 255)))
    }
}
