//! One stream of a link, from its first packet until it breaks.

use std::time::Duration;

use sandbox_agent::protocol::{ClientKey, MAX_FRAME, ProtocolError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::answer::{self, AnswerError};
use super::{ByteStream, LinkShared};

/// How long the agent may take to confirm the end of a link.
const FAREWELL: Duration = Duration::from_secs(1);

/// How a session ended.
#[derive(Debug)]
pub(super) enum SessionEnd {
    /// The link's stream was dropped on this side.
    Dropped,
    /// The agent ended the link.
    Closed,
    Violation(ProtocolError),
    /// The agent refused the link.
    Refused(String),
    /// The stream broke.
    Broken(String),
}

impl From<AnswerError> for SessionEnd {
    fn from(answer: AnswerError) -> Self {
        match answer {
            AnswerError::Refused(why) => Self::Refused(why),
            AnswerError::Violation(error) => Self::Violation(error),
            AnswerError::Broken(why) => Self::Broken(why),
        }
    }
}

/// Runs the first session of a link. Its first packets are sent before the answer is read.
pub(super) async fn begin(
    shared: &LinkShared,
    stream: Box<dyn ByteStream>,
    secret: &ClientKey,
) -> SessionEnd {
    run(shared, stream, &answer::link(secret)).await
}

/// Runs a later session, after its answer was read.
pub(super) async fn resume_session(shared: &LinkShared, stream: Box<dyn ByteStream>) -> SessionEnd {
    run(shared, stream, &[]).await
}

async fn run(shared: &LinkShared, stream: Box<dyn ByteStream>, opening: &[u8]) -> SessionEnd {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let left = async {
        shared.dropped().await;
        // Packets already sent may still arrive.
        tokio::time::sleep(FAREWELL).await;
    };
    let ended = tokio::select! {
        ended = receive(shared, &mut reader, !opening.is_empty()) => ended,
        ended = send(shared, &mut writer, opening) => ended,
        () = shared.renewal() => SessionEnd::Broken("nothing came for too long".into()),
        () = left => return SessionEnd::Dropped,
    };
    if matches!(ended, SessionEnd::Dropped) {
        // The agent's last packet confirms ours. Without it, the agent waits for the end of its
        // lease.
        let _ = tokio::time::timeout(FAREWELL, farewell(shared, &mut reader, &mut writer)).await;
    }
    ended
}

async fn receive(
    shared: &LinkShared,
    reader: &mut (impl AsyncRead + Unpin),
    unanswered: bool,
) -> SessionEnd {
    if unanswered {
        match answer::read(reader).await {
            Ok(0) => {}
            Ok(_) => {
                return SessionEnd::Violation(ProtocolError::Unexpected("bytes before a link"));
            }
            Err(none) => return none.into(),
        }
    }
    let mut bytes = vec![0; MAX_FRAME];
    loop {
        shared.room().await;
        let count = match reader.read(&mut bytes).await {
            Ok(0) => return SessionEnd::Broken("the stream ended".into()),
            Ok(count) => count,
            Err(error) => return SessionEnd::Broken(error.to_string()),
        };
        match shared.receive(&bytes[..count]) {
            Ok(false) => {}
            Ok(true) => return SessionEnd::Closed,
            Err(error) => return SessionEnd::Violation(error),
        }
    }
}

async fn send(
    shared: &LinkShared,
    writer: &mut (impl AsyncWrite + Unpin),
    opening: &[u8],
) -> SessionEnd {
    let broken = |error: std::io::Error| SessionEnd::Broken(error.to_string());
    if let Err(error) = writer.write_all(opening).await {
        return broken(error);
    }
    let mut bytes = Vec::new();
    loop {
        while shared.next_packet(&mut bytes) {
            if let Err(error) = writer.write_all(&bytes).await {
                return broken(error);
            }
        }
        if let Err(error) = writer.flush().await {
            return broken(error);
        }
        if !shared.to_send().await {
            return SessionEnd::Dropped;
        }
    }
}

async fn farewell(
    shared: &LinkShared,
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
) -> std::io::Result<()> {
    // Pending packets are sent first.
    let mut bytes = Vec::new();
    while shared.next_packet(&mut bytes) {
        writer.write_all(&bytes).await?;
    }
    writer.write_all(&shared.last_packet()).await?;
    writer.flush().await?;
    bytes.resize(MAX_FRAME, 0);
    loop {
        let count = reader.read(&mut bytes).await?;
        // This is the agent's last packet, or a violation. Either way, stop reading.
        if count == 0 || !matches!(shared.receive(&bytes[..count]), Ok(false)) {
            return Ok(());
        }
    }
}
