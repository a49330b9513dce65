//! The task that runs a link: one session after another, until the link ends.

use std::sync::Arc;
use std::time::Duration;

use sandbox_agent::protocol::{ClientKey, ProtocolError};
use sandbox_core::Error;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::answer::{self, AnswerError};
use super::reconnect_limit::ReconnectLimit;
use super::session::{self, SessionEnd};
use super::state::LinkEnding;
use super::{ByteStream, Connector, LinkShared, Unreachable};

/// A stream that lasts this long counts as a successful return. Its end starts a new outage.
const STABLE: Duration = Duration::from_secs(1);

/// The timeout of one attempt to reconnect.
const ATTEMPT: Duration = Duration::from_secs(10);

/// The first and the longest pause between attempts.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// Runs the link until either side ends it, or the agent is away for longer than `patience`.
pub(super) async fn drive(
    shared: Arc<LinkShared>,
    first: Box<dyn ByteStream>,
    reach: Arc<dyn Connector>,
    secret: ClientKey,
    patience: Duration,
) {
    let _driven = LinkTask(&shared);
    let mut limit = ReconnectLimit::new();
    let mut begun = Instant::now();
    // When the current outage began. A stream that breaks at once does not end it.
    let mut unsteady = None;
    let mut ended = session::begin(&shared, first, &secret).await;
    loop {
        let why = match ended {
            SessionEnd::Dropped => return,
            SessionEnd::Closed => return shared.end(LinkEnding::Closed),
            SessionEnd::Violation(error) => return shared.end(LinkEnding::Violation(error)),
            SessionEnd::Refused(why) => return shared.end(LinkEnding::Lost(why)),
            SessionEnd::Broken(why) => why,
        };
        shared.disconnect();
        tracing::debug!(why, "the connection to a sandbox is away");
        if begun.elapsed() >= STABLE {
            unsteady = None;
        }
        let deadline = *unsteady.get_or_insert_with(Instant::now) + patience;
        let returned = tokio::select! {
            () = shared.dropped() => return,
            returned = reconnect(&shared, &*reach, &secret, &mut limit, deadline) => returned,
        };
        let stream = match returned {
            Ok(stream) => stream,
            Err(LinkFailure::Violation(error)) => return shared.end(LinkEnding::Violation(error)),
            Err(LinkFailure::Lost(reason)) => {
                let reason = format!("the connection was lost ({why}): {reason}");
                return shared.end(LinkEnding::Lost(reason));
            }
        };
        tracing::debug!("the connection to a sandbox is back");
        begun = Instant::now();
        ended = session::resume_session(&shared, stream).await;
    }
}

/// Records that the link's task has ended, even if its runtime shut down.
struct LinkTask<'a>(&'a LinkShared);

impl Drop for LinkTask<'_> {
    fn drop(&mut self) {
        self.0.task_ended();
    }
}

/// Why a link does not return.
enum LinkFailure {
    Violation(ProtocolError),
    Lost(String),
}

/// Why one attempt failed.
enum AttemptFailure {
    Now(String),
    Ever(String),
    Violation(ProtocolError),
}

async fn reconnect(
    shared: &LinkShared,
    reach: &dyn Connector,
    secret: &ClientKey,
    limit: &mut ReconnectLimit,
    deadline: Instant,
) -> Result<Box<dyn ByteStream>, LinkFailure> {
    let [mut pause, longest] = PAUSES;
    loop {
        // If there is no turn before the deadline, many attempts were made already.
        let turn = timeout_at(deadline, limit.turn()).await;
        let until = deadline.min(Instant::now() + ATTEMPT);
        let attempted = match turn {
            Ok(()) => timeout_at(until, attempt(shared, reach, secret)).await,
            Err(elapsed) => Err(elapsed),
        };
        let why = match attempted {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(AttemptFailure::Ever(why))) => return Err(LinkFailure::Lost(why)),
            Ok(Err(AttemptFailure::Violation(error))) => return Err(LinkFailure::Violation(error)),
            Ok(Err(AttemptFailure::Now(why))) => why,
            Err(_) => "no answer in time".into(),
        };
        let next = Instant::now() + pause;
        if next >= deadline {
            return Err(LinkFailure::Lost(format!(
                "it did not come back for good before the agent's lease was over: {why}"
            )));
        }
        tracing::debug!(why, "an attempt to come back to a sandbox failed");
        sleep_until(next).await;
        pause = (pause * 2).min(longest);
    }
}

async fn attempt(
    shared: &LinkShared,
    reach: &dyn Connector,
    secret: &ClientKey,
) -> Result<Box<dyn ByteStream>, AttemptFailure> {
    let reason = |error: Error| error.context().to_owned();
    let mut stream = reach.open().await.map_err(|error| match error {
        Unreachable::Now(error) => AttemptFailure::Now(reason(error)),
        Unreachable::Ever(error) => AttemptFailure::Ever(reason(error)),
    })?;
    let broken = |error: std::io::Error| AttemptFailure::Now(error.to_string());
    let resume = answer::resume(secret, shared.received());
    stream.write_all(&resume).await.map_err(broken)?;
    stream.flush().await.map_err(broken)?;
    let received = answer::read(&mut stream).await.map_err(|none| match none {
        AnswerError::Refused(why) => {
            AttemptFailure::Ever(format!("the agent does not go on: {why}"))
        }
        AnswerError::Violation(error) => AttemptFailure::Violation(error),
        AnswerError::Broken(why) => AttemptFailure::Now(why),
    })?;
    shared.resume(received).map_err(AttemptFailure::Violation)?;
    Ok(stream)
}
