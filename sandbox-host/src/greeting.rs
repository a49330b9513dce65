//! The first message of a client, and the agent's answer.

use sandbox_agent::protocol::{
    AgentSettings, Attach, ClientKey, Failure, FrameBuffer, FrameKind, Welcome, encode_message,
};
use sandbox_core::{Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::agent_timeouts::WELCOME;
use crate::failure::failure_error;

/// The first message of a client.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Greeting<'a> {
    /// From the first client: the settings.
    Hello(&'a AgentSettings),
    /// From a later client: the key.
    Attach(&'a ClientKey),
}

impl Greeting<'_> {
    fn operation(self) -> &'static str {
        match self {
            Self::Hello(_) => "start the agent",
            Self::Attach(_) => "attach to sandbox",
        }
    }

    fn encode(self) -> Vec<u8> {
        let (kind, message) = match self {
            Self::Hello(settings) => (FrameKind::Hello, settings.encode()),
            Self::Attach(key) => (FrameKind::Attach, Attach { key: key.clone() }.encode()),
        };
        let mut bytes = Vec::new();
        encode_message(&mut bytes, 0, kind, &message);
        bytes
    }

    fn broken(self, tier: &str, context: String) -> Error {
        Error::new(ErrorKind::Protocol, self.operation(), context).on(tier)
    }

    /// The error for a stream that ended or broke before the answer.
    fn no_answer(self, tier: &str, context: String) -> Error {
        let kind = match self {
            Self::Hello(_) => ErrorKind::Protocol,
            Self::Attach(_) => ErrorKind::SandboxEnded,
        };
        Error::new(kind, self.operation(), context).on(tier)
    }
}

/// Sends the greeting and waits for the agent's welcome. Also returns bytes that followed the
/// welcome.
pub(crate) async fn greet(
    tier: &str,
    greeting: Greeting<'_>,
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
) -> Result<(Welcome, FrameBuffer)> {
    let broken = |context: String| greeting.broken(tier, context);
    let welcome = tokio::time::timeout(WELCOME, async {
        // An agent that refuses closes its end at once, so its answer explains more than the write
        // error.
        let sent = match writer.write_all(&greeting.encode()).await {
            Ok(()) => writer.flush().await,
            failed => failed,
        };
        let mut buffer = FrameBuffer::new();
        loop {
            let frame = buffer.next_frame().map_err(|e| broken(e.to_string()))?;
            if let Some(frame) = frame {
                let welcome = match frame.header.kind {
                    FrameKind::Welcome => Welcome::decode(frame.payload),
                    FrameKind::Failed => match Failure::decode(frame.payload) {
                        Ok(failure) => return Err(failure_error(tier, &failure)),
                        Err(error) => Err(error),
                    },
                    kind => return Err(broken(format!("unexpected first frame {kind:?}"))),
                };
                let welcome = welcome.map_err(|error| broken(error.to_string()))?;
                return Ok((welcome, buffer));
            }
            let mut bytes = [0; 4096];
            let failed = match reader.read(&mut bytes).await {
                Ok(0) => sent.err(),
                Ok(count) => {
                    buffer.extend(&bytes[..count]);
                    continue;
                }
                Err(error) => Some(error),
            };
            let context = match failed {
                None => "the agent ended before its first answer".into(),
                Some(error) => error.to_string(),
            };
            return Err(greeting.no_answer(tier, context));
        }
    });
    welcome
        .await
        .map_err(|_| broken(format!("no answer within {WELCOME:?}")))?
}
