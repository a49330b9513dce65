//! A stream to an agent that outlives the streams below it: when one breaks, another is opened and goes on where it was.
//!
//! The bytes are numbered and kept until the agent has them ([`sandbox_agent::protocol::LinkEnd`]), so neither output nor an exit
//! code is lost on the way. Nothing of this is paid for where a backend hands over a plain stream.

mod answer;
mod driver;
mod pace;
mod session;
mod state;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sandbox_agent::protocol::Key;
use sandbox_core::{Error, Result};
use tokio::io::{AsyncRead, AsyncWrite};

use state::FAREWELLS;
pub(crate) use state::Shared;
pub(crate) use stream::LinkedStream;

/// A duplex byte stream.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// How a backend reaches an agent that listens, as often as it has to.
#[async_trait]
pub trait Reach: Send + Sync + 'static {
    /// Opens a new stream to the agent.
    ///
    /// # Behavior
    ///
    /// - A caller that has waited long enough drops the future, which must leave nothing behind.
    /// - May be called while an earlier stream is still open, which is of no use then.
    ///
    /// # Errors
    ///
    /// [`Unreachable::Now`] where another attempt may succeed, [`Unreachable::Ever`] where the agent is known to be gone.
    async fn open(&self) -> std::result::Result<Box<dyn ByteStream>, Unreachable>;
}

/// Why there is no stream to an agent.
#[derive(Debug)]
pub enum Unreachable {
    /// Nothing answers at the moment.
    Now(Error),
    /// The agent is gone.
    Ever(Error),
}

impl Unreachable {
    /// The error, either way.
    #[must_use]
    pub fn into_error(self) -> Error {
        match self {
            Self::Now(error) | Self::Ever(error) => error,
        }
    }
}

/// How long an agent without a lease waits for a client whose stream broke.
const NO_LEASE: Duration = Duration::from_secs(60);

/// How long an agent of this lease (milliseconds, 0 for none) is looked for: after that it has ended, or forgotten this client.
pub(crate) fn patience(lease_ms: u64) -> Duration {
    match lease_ms {
        0 => NO_LEASE,
        lease => Duration::from_millis(lease),
    }
}

/// Waits until the agents have heard of every client of this process that has gone: for whoever is about to end, with its runtime. Where
/// one is not reached it is given up after two seconds; its agent finds out by itself.
pub async fn farewells() {
    FAREWELLS.settled().await;
}

/// Begins a link over its first stream. An agent that stays away for longer than `patience` has lost it.
///
/// # Errors
///
/// When the system has no randomness.
pub(crate) fn begin(
    first: Box<dyn ByteStream>,
    reach: Arc<dyn Reach>,
    patience: Duration,
) -> Result<LinkedStream> {
    let secret: Key = crate::sandbox::random_key()?;
    let shared = Arc::new(Shared::new());
    let stream = LinkedStream::new(Arc::clone(&shared));
    tokio::spawn(driver::drive(shared, first, reach, secret, patience));
    Ok(stream)
}
