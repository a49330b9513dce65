//! An execution in a pod as the agent's bytes: its standard input and output, and its last words.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{AttachParams, AttachedProcess};
use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::LastWords;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use crate::TIER;
use crate::error::{Operation, cluster_error};
use crate::lower::{AGENT, CONTAINER, SOCKET};

/// How many bytes wait on the way in either direction.
const BUFFER: usize = 256 * 1024;

/// The same of standard error.
const ERRORS: usize = 4096;

/// How much such a program may say.
const OUTPUT: u64 = 64 * 1024;

/// A duplex byte stream to the agent of a pod. Dropping it ends the connection.
pub(crate) struct PodStream {
    output: Pin<Box<dyn AsyncRead + Send>>,
    input: Pin<Box<dyn AsyncWrite + Send>>,
    /// Carries the bytes while it lives.
    _process: AttachedProcess,
}

/// Starts a program beside the agent that carries bytes to it. What it says on standard error goes to the `last_words`.
///
/// A websocket of the older protocol ends as a whole when its standard input does, and takes the status with it. Neither matters here:
/// the agent's own frames say what has begun and what has ended, and this side closes the connection only when nothing more is to come.
///
/// # Errors
///
/// What the cluster refuses.
pub(crate) async fn enter(pods: &Api<Pod>, pod: &str, last_words: &LastWords) -> Result<PodStream> {
    let command = [AGENT, "connect", "--wait", SOCKET];
    execute(pods, (pod, CONTAINER), command, last_words).await
}

/// Starts a program in a container of a pod; gives its standard input and output. What it says on standard error goes to the `last_words`.
///
/// # Errors
///
/// What the cluster refuses.
pub(crate) async fn execute<'a>(
    pods: &Api<Pod>,
    (pod, container): (&str, &str),
    command: impl IntoIterator<Item = &'a str> + std::fmt::Debug,
    last_words: &LastWords,
) -> Result<PodStream> {
    let parameters = AttachParams::default()
        .container(container)
        .stdin(true)
        .stdout(true)
        .stderr(true)
        .max_stdin_buf_size(BUFFER)
        .max_stdout_buf_size(BUFFER)
        .max_stderr_buf_size(ERRORS);
    let mut process = pods
        .exec(pod, command, &parameters)
        .await
        .map_err(|error| cluster_error(Operation::Exec, error))?;
    let missing = |what: &str| {
        let context = format!("the cluster's client has no {what}");
        Error::new(ErrorKind::Protocol, "enter pod", context).on(TIER)
    };
    let input = process.stdin().ok_or_else(|| missing("standard input"))?;
    let output = process.stdout().ok_or_else(|| missing("standard output"))?;
    let errors = process.stderr().ok_or_else(|| missing("standard error"))?;
    // Ends with the process: what is not read would hold up the rest.
    tokio::spawn(keep_last(errors, last_words.clone()));
    Ok(PodStream {
        output: Box::pin(output),
        input: Box::pin(input),
        _process: process,
    })
}

/// Runs a program beside the agent to its end; gives its output.
///
/// # Errors
///
/// What the cluster refuses, and `SetupFailed` where it does not end in time or says more than it may. How it has ended is left to what it
/// says.
pub(crate) async fn output(
    pods: &Api<Pod>,
    pod: &str,
    command: &[&str],
    patience: Duration,
) -> Result<String> {
    let parameters = AttachParams::default()
        .container(CONTAINER)
        .stdin(false)
        .stdout(true)
        .stderr(false);
    let failed = |why: String| {
        let context = format!("{}: {why}", command.join(" "));
        Error::new(ErrorKind::SetupFailed, "run in pod", context).on(TIER)
    };
    let run = async {
        let mut process = pods
            .exec(pod, command.iter().copied(), &parameters)
            .await
            .map_err(|error| cluster_error(Operation::Exec, error))?;
        let output = process
            .stdout()
            .ok_or_else(|| failed("no standard output".into()))?;
        let mut text = String::new();
        let read = output.take(OUTPUT).read_to_string(&mut text).await;
        read.map_err(|error| failed(error.to_string()))?;
        Ok(text)
    };
    let ran = tokio::time::timeout(patience, run).await;
    ran.map_err(|_| failed(format!("it has not ended after {patience:?}")))?
}

async fn keep_last(mut errors: impl AsyncRead + Unpin, words: LastWords) {
    let mut bytes = [0; 1024];
    // An error is an end too: there is nothing more to keep.
    while let Ok(count @ 1..) = errors.read(&mut bytes).await {
        words.extend(&bytes[..count]);
    }
}

impl AsyncRead for PodStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.output.as_mut().poll_read(context, buffer)
    }
}

impl AsyncWrite for PodStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.input.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.as_mut().poll_shutdown(context)
    }
}
