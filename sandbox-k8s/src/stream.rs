//! Connects to the agent by executing a program in its pod: standard input and output carry the
//! bytes, standard error is kept for error messages.

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
use crate::error::{ClusterOperation, cluster_error};
use crate::lowering::{AGENT, CONTAINER, SOCKET};

/// The buffer size in each direction, in bytes.
const BUFFER: usize = 256 * 1024;

/// The buffer size of standard error, in bytes.
const STDERR_BUFFER: usize = 4096;

/// The most output read from such a program, in bytes.
const MAX_OUTPUT: u64 = 64 * 1024;

/// A duplex byte stream to the agent of a pod. Dropping it ends the connection.
pub(crate) struct PodStream {
    output: Pin<Box<dyn AsyncRead + Send>>,
    input: Pin<Box<dyn AsyncWrite + Send>>,
    /// Keeps the connection open.
    _process: AttachedProcess,
}

/// Runs a program beside the agent that forwards bytes to it. Its standard error goes to
/// `last_words`.
///
/// A websocket of the older protocol closes as a whole when standard input ends, and loses the exit
/// status. Neither matters: the agent's frames report starts and ends, and this side closes the
/// connection only when nothing more will follow.
///
/// # Errors
///
/// Errors of the cluster.
pub(crate) async fn enter(pods: &Api<Pod>, pod: &str, last_words: &LastWords) -> Result<PodStream> {
    let command = [AGENT, "connect", "--wait", SOCKET];
    execute(pods, (pod, CONTAINER), command, last_words).await
}

/// Runs a program in a container of a pod; returns its standard input and output. Its standard
/// error goes to `last_words`.
///
/// # Errors
///
/// Errors of the cluster.
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
        .max_stderr_buf_size(STDERR_BUFFER);
    let mut process = pods
        .exec(pod, command, &parameters)
        .await
        .map_err(|error| cluster_error(ClusterOperation::Exec, error))?;
    let missing = |what: &str| {
        let context = format!("the cluster's client has no {what}");
        Error::new(ErrorKind::Protocol, "enter pod", context).on(TIER)
    };
    let input = process.stdin().ok_or_else(|| missing("standard input"))?;
    let output = process.stdout().ok_or_else(|| missing("standard output"))?;
    let errors = process.stderr().ok_or_else(|| missing("standard error"))?;
    // Ends with the process. Unread standard error would block the other streams.
    tokio::spawn(keep_tail(errors, last_words.clone()));
    Ok(PodStream {
        output: Box::pin(output),
        input: Box::pin(input),
        _process: process,
    })
}

/// Runs a program beside the agent until it ends; returns its output. The exit status is ignored,
/// since the output tells.
///
/// # Errors
///
/// Errors of the cluster; `SetupFailed` after the timeout or without a standard output.
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
            .map_err(|error| cluster_error(ClusterOperation::Exec, error))?;
        let output = process
            .stdout()
            .ok_or_else(|| failed("no standard output".into()))?;
        let mut text = String::new();
        let read = output.take(MAX_OUTPUT).read_to_string(&mut text).await;
        read.map_err(|error| failed(error.to_string()))?;
        Ok(text)
    };
    let ran = tokio::time::timeout(patience, run).await;
    ran.map_err(|_| failed(format!("it has not ended after {patience:?}")))?
}

async fn keep_tail(mut errors: impl AsyncRead + Unpin, words: LastWords) {
    let mut bytes = [0; 1024];
    // An error ends the stream, too.
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
