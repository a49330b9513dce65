//! An execution in a pod as the agent's bytes: its standard input and output, and its last words.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{AttachParams, AttachedProcess};
use sandbox_core::{Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use crate::TIER;
use crate::error::{Operation, cluster_error};
use crate::lower::{AGENT, CONTAINER, SOCKET};

/// How many bytes wait on the way in either direction.
const BUFFER: usize = 256 * 1024;

/// How many bytes of standard error are kept.
const LAST_WORDS: usize = 4096;

/// A duplex byte stream to the agent of a pod. Dropping it ends the connection.
pub(crate) struct PodStream {
    output: Pin<Box<dyn AsyncRead + Send>>,
    input: Pin<Box<dyn AsyncWrite + Send>>,
    last_words: LastWords,
    /// Carries the bytes while it lives.
    _process: AttachedProcess,
}

/// The end of what was written to standard error: by the program that carries bytes, or by the runtime that could not start it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastWords(Arc<Mutex<VecDeque<u8>>>);

impl LastWords {
    fn extend(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&bytes[bytes.len().saturating_sub(LAST_WORDS)..]);
        let surplus = kept.len().saturating_sub(LAST_WORDS);
        kept.drain(..surplus);
    }

    /// As one line, with what could disturb a terminal escaped; `None` where nothing was written.
    pub(crate) fn text(&self) -> Option<String> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = kept.iter().copied().collect::<Vec<_>>();
        let text = String::from_utf8_lossy(bytes.trim_ascii());
        (!text.is_empty()).then(|| text.escape_debug().to_string())
    }
}

/// Starts a program beside the agent that carries bytes to it.
///
/// A websocket of the older protocol ends as a whole when its standard input does, and takes the status with it. Neither matters here:
/// the agent's own frames say what has begun and what has ended, and this side closes the connection only when nothing more is to come.
///
/// # Errors
///
/// What the cluster refuses.
pub(crate) async fn enter(pods: &Api<Pod>, pod: &str) -> Result<PodStream> {
    let parameters = AttachParams::default()
        .container(CONTAINER)
        .stdin(true)
        .stdout(true)
        .stderr(true)
        .max_stdin_buf_size(BUFFER)
        .max_stdout_buf_size(BUFFER)
        .max_stderr_buf_size(LAST_WORDS);
    let command = [AGENT, "connect", "--wait", SOCKET];
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
    let last_words = LastWords::default();
    // Ends with the process: what is not read would hold up the rest.
    tokio::spawn(keep_last(errors, last_words.clone()));
    Ok(PodStream {
        output: Box::pin(output),
        input: Box::pin(input),
        last_words,
        _process: process,
    })
}

async fn keep_last(mut errors: impl AsyncRead + Unpin, words: LastWords) {
    let mut bytes = [0; 1024];
    // An error is an end too: there is nothing more to keep.
    while let Ok(count @ 1..) = errors.read(&mut bytes).await {
        words.extend(&bytes[..count]);
    }
}

impl PodStream {
    /// What was said on standard error so far.
    pub(crate) fn last_words(&self) -> LastWords {
        self.last_words.clone()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_the_last_words_only_the_end_is_kept_and_escaped() {
        let words = LastWords::default();
        assert_eq!(words.text(), None);
        let mut long = vec![b'x'; 3 * LAST_WORDS];
        long.extend(b"\x1b[31mend\n");
        keep_last(&*long, words.clone()).await;
        let text = words.text().expect("words");
        assert!(text.ends_with("\\u{1b}[31mend"), "{text}");
        assert!(text.len() < LAST_WORDS + 16);
    }
}
