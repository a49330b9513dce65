//! Connects a later client to an agent, through a process in its container that relays bytes to the
//! agent's socket.

use std::time::Duration;

use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::egress::EgressConfig;
use sandbox_host::{AgentInstance, AttachedSandbox, ClientKey};

use crate::detached::ContainerRecord;
use crate::error::{Operation, engine_error};
use crate::isolator::ContainerIsolator;
use crate::stream::AttachStream;
use crate::volume::{AGENT, SOCKET};

/// Attempts to start the process. It briefly needs a few processes and some memory of the
/// container, which code may have used up.
const ATTEMPTS: u32 = 5;

/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// Attaches to the agent of a detached sandbox. On failure the sandbox stays as it is.
///
/// # Errors
///
/// `SandboxEnded` if it has ended, `SandboxUnavailable` without an engine, else as
/// [`AgentInstance::attach`].
pub(crate) async fn attach(
    isolator: &ContainerIsolator,
    record: &ContainerRecord,
    key: &ClientKey,
    egress: EgressConfig<'_>,
) -> Result<AgentInstance> {
    let mut attempt = 1;
    loop {
        let (process, stream) = open(isolator, &record.parts.user).await?;
        let agent_isolator = Box::new(isolator.clone());
        let sandbox = AttachedSandbox::from(record).with_egress(&record.plan, egress)?;
        let attached = AgentInstance::attach(stream, key, sandbox, agent_isolator).await;
        let error = match attached {
            Ok(instance) => return Ok(instance),
            Err(error) => error,
        };
        if !failed_to_start(isolator, &process).await {
            return Err(error);
        }
        if attempt == ATTEMPTS {
            let context =
                format!("the engine could not start a process in the container ({ATTEMPTS} times)");
            return Err(Error::new(ErrorKind::Io, Operation::Exec.phrase(), context)
                .on(isolator.tier())
                .with_fix("code that uses all processes or memory of the sandbox leaves none for it: wait, or end the sandbox with `sandbox rm`"));
        }
        attempt += 1;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Starts the process; returns its exec id and its stream.
async fn open(isolator: &ContainerIsolator, user: &str) -> Result<(String, AttachStream)> {
    let failed = |error| engine_error(isolator.tier(), Operation::Exec, error);
    let client = &isolator.engine().client;
    let options = CreateExecOptions {
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(false),
        user: Some(user),
        working_dir: Some("/"),
        // The key is sent over the stream: the engine shows arguments to all its users.
        cmd: Some(vec![AGENT, "connect", SOCKET]),
        ..CreateExecOptions::default()
    };
    let created = client.create_exec(isolator.container(), options).await;
    let process = created.map_err(failed)?.id;
    let options = StartExecOptions::default();
    match client
        .start_exec(&process, Some(options))
        .await
        .map_err(failed)?
    {
        StartExecResults::Attached { output, input } => {
            let stream = AttachStream::new(output, input);
            Ok((process, stream.with_stderr_tail(isolator.stderr_tail())))
        }
        StartExecResults::Detached => {
            let context = "the engine returned no stream for the process";
            Err(Error::new(ErrorKind::Io, Operation::Exec.phrase(), context).on(isolator.tier()))
        }
    }
}

/// Whether the process never started: engines report this as exit code 126, 127 or 255.
async fn failed_to_start(isolator: &ContainerIsolator, process: &str) -> bool {
    let exec = isolator.engine().client.inspect_exec(process).await;
    // Without an answer, the engine has not refused the process.
    exec.is_ok_and(|exec| matches!(exec.exit_code, Some(126 | 127 | 255)))
}
