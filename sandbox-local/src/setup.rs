//! The first messages to the agent: what to set up, and the id maps that only a process outside can
//! write.

use std::io::{ErrorKind as ErrorKindOfIo, Write};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;

use sandbox_agent::protocol::{Failure, FrameBuffer, FrameKind, Setup, encode_message};
use sandbox_agent::runtime::Pid;
use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::failure_error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::error;

/// Time limit for the agent to set up the sandbox.
const SETUP_TIMEOUT: Duration = Duration::from_secs(10);

/// A setup message that is partly sent.
#[derive(Debug)]
pub(crate) struct PendingSetup {
    message: Vec<u8>,
    sent: usize,
}

/// Sends as much of the setup as the stream takes without blocking: usually all of it, so that the
/// agent finds it at once.
pub(crate) fn send_early(
    tier: &str,
    stream: &StdUnixStream,
    setup: &Setup,
) -> Result<PendingSetup> {
    let mut message = Vec::new();
    encode_message(&mut message, 0, FrameKind::Setup, &setup.encode());
    let sent = match (&*stream).write(&message) {
        Ok(sent) => sent,
        Err(cause) if cause.kind() == ErrorKindOfIo::WouldBlock => 0,
        Err(cause) => return Err(broken(tier, cause)),
    };
    Ok(PendingSetup { message, sent })
}

/// Sends the rest. If `map` is set, waits until the agent is in its user namespace and writes `map`
/// as its user and group map.
///
/// Without a user namespace, the agent reports a setup failure as the answer to the next message.
pub(crate) async fn set_up(
    tier: &str,
    stream: &mut UnixStream,
    pending_setup: PendingSetup,
    agent: Pid,
    map: Option<&str>,
) -> Result<()> {
    let exchange = async {
        let PendingSetup { mut message, sent } = pending_setup;
        stream
            .write_all(&message[sent..])
            .await
            .map_err(|cause| broken(tier, cause))?;
        if let Some(map) = map {
            wait_for_namespace(tier, stream).await?;
            tracing::trace!("user namespace entered");
            for file in ["uid_map", "gid_map"] {
                let path = format!("/proc/{}/{file}", agent.0);
                std::fs::write(&path, map).map_err(|cause| error::setup(tier, path, cause))?;
            }
            message.clear();
            encode_message(&mut message, 0, FrameKind::Mapped, b"");
            stream
                .write_all(&message)
                .await
                .map_err(|cause| broken(tier, cause))?;
        }
        Ok(())
    };
    match tokio::time::timeout(SETUP_TIMEOUT, exchange).await {
        Ok(result) => result,
        Err(_) => Err(Error::new(
            ErrorKind::SetupFailed,
            "set up sandbox",
            format!("the agent did not set up the sandbox within {SETUP_TIMEOUT:?}"),
        )
        .on(tier)),
    }
}

async fn wait_for_namespace(tier: &str, stream: &mut UnixStream) -> Result<()> {
    let mut buffer = FrameBuffer::new();
    let mut bytes = [0; 4096];
    loop {
        if let Some(frame) = buffer.next_frame().map_err(|cause| broken(tier, cause))? {
            return match frame.header.kind {
                FrameKind::NeedMaps => Ok(()),
                FrameKind::Failed => Err(match Failure::decode(frame.payload) {
                    Ok(failure) => failure_error(tier, &failure),
                    Err(cause) => broken(tier, cause),
                }),
                kind => Err(broken(tier, format!("unexpected first frame {kind:?}"))),
            };
        }
        match stream.read(&mut bytes).await {
            Ok(0) => return Err(broken(tier, "it ended before its first answer")),
            Ok(count) => buffer.extend(&bytes[..count]),
            Err(cause) => return Err(broken(tier, cause)),
        }
    }
}

fn broken(tier: &str, cause: impl ToString) -> Error {
    let context = format!("the agent: {}", cause.to_string());
    Error::new(ErrorKind::Protocol, "set up sandbox", context).on(tier)
}
