//! Connects a later client to an agent, through a process in its container that relays bytes to the
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

/// Attempts to start the process. It briefly needs a few processes and some memory of the
/// container, which code may have used up.
const ATTEMPTS: u32 = 5;

/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// A later client and its container.
#[derive(Debug)]
pub(crate) struct Reconnection<'a> {
    pub(crate) tier: Tier,
    pub(crate) engine: &'a Engine,
    /// The container's id.
    pub(crate) container: &'a str,
    /// The user that the agent runs as.
    pub(crate) user: &'a str,
    pub(crate) key: &'a Key,
}

impl Reconnection<'_> {
    /// Attaches to the agent. On failure the sandbox stays as it is.
    ///
    /// # Errors
    ///
    /// `SandboxEnded` if it has ended, `SandboxUnavailable` without an engine, else as
    /// [`AgentInstance::attach`].
    pub(crate) async fn attach(
        &self,
        sandbox: AttachedSandbox,
        isolator: &ContainerIsolator,
    ) -> Result<AgentInstance> {
        let mut attempt = 1;
        loop {
            let (process, stream) = self.open().await?;
            isolator.set_agent_stderr(stream.agent_stderr());
            let agent_isolator = Box::new(isolator.clone());
            let attached =
                AgentInstance::attach(stream, self.key, sandbox.clone(), agent_isolator).await;
            let error = match attached {
                Ok(instance) => return Ok(instance),
                Err(error) => error,
            };
            if !self.failed_to_start(&process).await {
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
            // The key is sent over the stream: the engine shows arguments to all its users.
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
                let context = "the engine returned no stream for the process";
                Err(Error::new(ErrorKind::Io, Operation::Exec.phrase(), context).on(self.tier))
            }
        }
    }

    /// Whether the process never started: engines report this as exit code 126, 127 or 255.
    async fn failed_to_start(&self, process: &str) -> bool {
        let exec = self.engine.client.inspect_exec(process).await;
        // Without an answer, the engine has not refused the process.
        exec.is_ok_and(|exec| matches!(exec.exit_code, Some(126 | 127 | 255)))
    }
}
