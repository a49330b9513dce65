//! A stream to an agent that outlives the streams below it: when one breaks, the next one continues
//! at the same position.
//!
//! Bytes are numbered and kept until the agent acknowledges them
//! ([`sandbox_agent::protocol::LinkEnd`]). So a broken stream loses neither output nor exit codes.
//! Backends that provide a plain stream do not use this layer.

mod answer;
mod driver;
mod reconnect_limit;
mod session;
mod state;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sandbox_agent::protocol::ClientKey;
use sandbox_core::{Error, Result};
use tokio::io::{AsyncRead, AsyncWrite};

use state::FAREWELLS;
pub(crate) use state::LinkShared;
pub(crate) use stream::LinkedStream;

/// A duplex byte stream.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// How a backend connects to a listening agent, as often as necessary.
#[async_trait]
pub trait Connector: Send + Sync + 'static {
    /// Opens a new stream to the agent.
    ///
    /// # Behavior
    ///
    /// - Cancel safe: the caller drops the future after its timeout, which must leave nothing
    ///   behind.
    /// - May be called while an earlier stream is still open; that stream is then useless.
    ///
    /// # Errors
    ///
    /// [`Unreachable::Now`] if a later attempt may succeed, [`Unreachable::Ever`] if the agent is
    /// known to be gone.
    async fn open(&self) -> std::result::Result<Box<dyn ByteStream>, Unreachable>;
}

/// Why there is no stream to an agent.
#[derive(Debug)]
pub enum Unreachable {
    /// The agent cannot be reached at the moment.
    Now(Error),
    /// The agent has ended.
    Ever(Error),
}

impl Unreachable {
    /// The error in both cases.
    #[must_use]
    pub fn into_error(self) -> Error {
        match self {
            Self::Now(error) | Self::Ever(error) => error,
        }
    }
}

/// How long an agent without a lease waits for the return of a client.
const NO_LEASE: Duration = Duration::from_secs(60);

/// How long to try to reconnect to an agent with this lease (in milliseconds, 0 for none). After
/// that the agent has ended or forgotten this client.
pub(crate) fn patience(lease_ms: u64) -> Duration {
    match lease_ms {
        0 => NO_LEASE,
        lease => Duration::from_millis(lease),
    }
}

/// Waits until the agents know of all clients that this process has closed. For use before the
/// process or its runtime ends. Gives up on an unreachable agent after 2 s; that agent notices by
/// itself.
pub async fn closed_clients_notified() {
    FAREWELLS.settled().await;
}

/// Starts a link over its first stream. The link is lost if the agent is away for longer than
/// `patience`.
///
/// # Errors
///
/// If the system provides no random bytes.
pub(crate) fn begin(
    first: Box<dyn ByteStream>,
    reach: Arc<dyn Connector>,
    patience: Duration,
) -> Result<LinkedStream> {
    let secret: ClientKey = crate::sandbox::random_key()?;
    let shared = Arc::new(LinkShared::new());
    let stream = LinkedStream::new(Arc::clone(&shared));
    tokio::spawn(driver::drive(shared, first, reach, secret, patience));
    Ok(stream)
}
