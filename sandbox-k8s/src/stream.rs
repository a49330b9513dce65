//! Connects to the agent by executing a program in its pod: standard input and output carry the
//! bytes, standard error is kept for error messages.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{AttachParams, AttachedProcess};
use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::StderrTail;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::task::coop;

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
    output: Half<dyn AsyncRead + Send>,
    input: Half<dyn AsyncWrite + Send>,
    /// Keeps the connection open.
    _process: AttachedProcess,
}

/// Resolves when the connection of a program ends, for whatever reason.
type StreamEnd = Shared<BoxFuture<'static, ()>>;

/// One stream of a program, which ends with its connection.
///
/// kube 5 passes the bytes through `tokio::io::simplex`, whose halves do not end when the other one
/// is dropped. Without this type, reads and writes wait forever after the connection breaks.
struct Half<T: ?Sized> {
    stream: Pin<Box<T>>,
    /// `None` once the connection has ended. Each half has its own clone, since a clone wakes only
    /// the task that polled it last.
    end: Option<StreamEnd>,
}

impl<T: ?Sized> Half<T> {
    fn new(stream: Box<T>, end: &StreamEnd) -> Self {
        Self {
            stream: Box::into_pin(stream),
            end: Some(end.clone()),
        }
    }

    /// Whether the connection has ended; if not, wakes the task when it does.
    fn has_ended(&mut self, context: &mut Context<'_>) -> bool {
        if let Some(end) = &mut self.end
            && end.poll_unpin(context).is_ready()
        {
            self.end = None;
        }
        self.end.is_none()
    }
}

/// When the connection of `process` ends.
fn connection_end(process: &mut AttachedProcess) -> StreamEnd {
    let status = process.take_status();
    // The sender of the status is dropped with the connection, so this resolves without one, too.
    let end = async move {
        if let Some(status) = status {
            status.await;
        }
    };
    end.boxed().shared()
}

/// Runs a program beside the agent that forwards bytes to it. Its standard error goes to
/// `stderr_tail`.
///
/// A websocket of the older protocol closes as a whole when standard input ends, and loses the exit
/// status. Neither matters: the agent's frames report starts and ends, and this side closes the
/// connection only when nothing more will follow.
///
/// # Errors
///
/// Errors of the cluster.
pub(crate) async fn enter(
    pods: &Api<Pod>,
    (pod, container): (&str, &str),
    stderr_tail: &StderrTail,
) -> Result<PodStream> {
    let command = [AGENT, "connect", "--wait", SOCKET];
    execute(pods, (pod, container), command, stderr_tail).await
}

/// Runs a program in a container of a pod; returns its standard input and output. Its standard
/// error goes to `stderr_tail`.
///
/// # Errors
///
/// Errors of the cluster.
pub(crate) async fn execute<'a>(
    pods: &Api<Pod>,
    (pod, container): (&str, &str),
    command: impl IntoIterator<Item = &'a str> + std::fmt::Debug,
    stderr_tail: &StderrTail,
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
    let end = connection_end(&mut process);
    let input = process.stdin().ok_or_else(|| missing("standard input"))?;
    let output = process.stdout().ok_or_else(|| missing("standard output"))?;
    let errors = process.stderr().ok_or_else(|| missing("standard error"))?;
    // Ends with the process. Unread standard error would block the other streams.
    let errors = Half::new(Box::new(errors), &end);
    tokio::spawn(keep_tail(errors, stderr_tail.clone()));
    Ok(PodStream {
        output: Half::new(Box::new(output), &end),
        input: Half::new(Box::new(input), &end),
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
        let end = connection_end(&mut process);
        let output = process
            .stdout()
            .ok_or_else(|| failed("no standard output".into()))?;
        let output = Half::new(Box::new(output), &end);
        let mut text = String::new();
        let read = output.take(MAX_OUTPUT).read_to_string(&mut text).await;
        read.map_err(|error| failed(error.to_string()))?;
        Ok(text)
    };
    let ran = tokio::time::timeout(patience, run).await;
    ran.map_err(|_| failed(format!("it has not ended after {patience:?}")))?
}

async fn keep_tail(mut errors: impl AsyncRead + Unpin, tail: StderrTail) {
    let mut bytes = [0; 1024];
    // An error ends the stream, too.
    while let Ok(count @ 1..) = errors.read(&mut bytes).await {
        tail.extend(&bytes[..count]);
    }
}

impl<T: AsyncRead + ?Sized> AsyncRead for Half<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Asked before the read: what arrived before the end must be read first.
        let has_ended = self.has_ended(context);
        let read = self.stream.as_mut().poll_read(context, buffer);
        // A task that has used up its budget gets `Pending` although bytes are there.
        if read.is_pending() && has_ended && coop::has_budget_remaining() {
            return Poll::Ready(Ok(()));
        }
        read
    }
}

impl<T: AsyncWrite + ?Sized> AsyncWrite for Half<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.has_ended(context) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.stream.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(context)
    }
}

impl AsyncRead for PodStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.output).poll_read(context, buffer)
    }
}

impl AsyncWrite for PodStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.input).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::sync::oneshot;

    use super::*;

    fn ends_with(receiver: oneshot::Receiver<()>) -> StreamEnd {
        receiver.map(drop).boxed().shared()
    }

    #[tokio::test]
    async fn bytes_before_the_end_of_a_connection_are_read() {
        let (reader, mut writer) = tokio::io::simplex(1 << 20);
        let (sender, receiver) = oneshot::channel();
        // More polls than a task has budget for.
        writer.write_all(&vec![7; 1 << 20]).await.unwrap();
        drop(sender);
        let mut half = Half::new(Box::new(reader), &ends_with(receiver));
        let mut bytes = Vec::new();
        let mut buffer = [0; 512];
        loop {
            match half.read(&mut buffer).await.unwrap() {
                0 => break,
                count => bytes.extend_from_slice(&buffer[..count]),
            }
        }
        assert_eq!(bytes.len(), 1 << 20);
    }

    #[tokio::test]
    async fn pending_write_fails_when_the_connection_ends() {
        let (_reader, writer) = tokio::io::simplex(8);
        let (sender, receiver) = oneshot::channel();
        let mut half = Half::new(Box::new(writer), &ends_with(receiver));
        let written = tokio::spawn(async move { half.write_all(&[7; 16]).await });
        tokio::task::yield_now().await;
        drop(sender);
        let error = written.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
