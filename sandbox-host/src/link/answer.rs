//! The first frames on a stream of a link.

use sandbox_agent::protocol::{
    BeginLink, ClientKey, Failure, FrameKind, HEADER_LEN, Header, ProtocolError, Resume, Resumed,
    encode_frame,
};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::failure::failure_error;

/// The most bytes of an agent's refusal.
const MAX_REFUSAL: usize = 4096;

/// Why the agent's answer cannot be used.
#[derive(Debug)]
pub(super) enum AnswerError {
    /// The agent refused.
    Refused(String),
    Violation(ProtocolError),
    Broken(String),
}

impl From<std::io::Error> for AnswerError {
    fn from(error: std::io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<ProtocolError> for AnswerError {
    fn from(error: ProtocolError) -> Self {
        Self::Violation(error)
    }
}

/// The greeting of a new link.
pub(super) fn link(secret: &ClientKey) -> Vec<u8> {
    let link = BeginLink {
        secret: secret.clone(),
    };
    frame(FrameKind::Link, &link.encode())
}

/// The greeting of a stream that resumes a link, of which this many bytes have arrived.
pub(super) fn resume(secret: &ClientKey, received: u64) -> Vec<u8> {
    let resume = Resume {
        secret: secret.clone(),
        received,
    };
    frame(FrameKind::Resume, &resume.encode())
}

fn frame(kind: FrameKind, message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_frame(&mut bytes, 0, kind, false, message);
    bytes
}

/// Reads the agent's answer and not a byte more. Returns how many bytes the agent has received.
pub(super) async fn read(reader: &mut (impl AsyncRead + Unpin)) -> Result<u64, AnswerError> {
    let mut head = [0; HEADER_LEN];
    reader.read_exact(&mut head).await?;
    let header = Header::decode(&head)?;
    let unexpected = ProtocolError::Unexpected("answer to a link");
    if header.stream != 0 || header.more || header.length > MAX_REFUSAL {
        return Err(unexpected.into());
    }
    let mut message = vec![0; header.length];
    reader.read_exact(&mut message).await?;
    match header.kind {
        FrameKind::Resumed => Ok(Resumed::decode(&message)?.received),
        FrameKind::Failed => {
            let refusal = failure_error("", &Failure::decode(&message)?);
            Err(AnswerError::Refused(refusal.context().to_owned()))
        }
        _ => Err(unexpected.into()),
    }
}
