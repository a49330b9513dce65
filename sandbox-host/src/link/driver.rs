//! The task that runs a link: one session after another, until the link ends.

use std::sync::Arc;
use std::time::Duration;

use sandbox_agent::protocol::{Key, ProtocolError};
use sandbox_core::Error;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::answer::{self, NoAnswer};
use super::pace::Pace;
use super::session::{self, Ended};
use super::state::Over;
use super::{ByteStream, Reach, Shared, Unreachable};

/// A stream that lasts this long counts as a successful return. Its end starts a new outage.
const LASTING: Duration = Duration::from_secs(1);

/// The timeout of one attempt to reconnect.
const ATTEMPT: Duration = Duration::from_secs(10);

/// The first and the longest pause between attempts.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// Runs the link until either side ends it, or the agent is away for longer than `patience`.
pub(super) async fn drive(
    shared: Arc<Shared>,
    first: Box<dyn ByteStream>,
    reach: Arc<dyn Reach>,
    secret: Key,
    patience: Duration,
) {
    let _driven = Driven(&shared);
    let mut pace = Pace::new();
    let mut begun = Instant::now();
    // When the current outage began. A stream that breaks at once does not end it.
    let mut unsteady = None;
    let mut ended = session::begin(&shared, first, &secret).await;
    loop {
        let why = match ended {
            Ended::Dropped => return,
            Ended::Closed => return shared.end(Over::Closed),
            Ended::Violation(error) => return shared.end(Over::Violation(error)),
            Ended::Refused(why) => return shared.end(Over::Lost(why)),
            Ended::Broken(why) => why,
        };
        shared.lose();
        tracing::debug!(why, "the connection to a sandbox is away");
        if begun.elapsed() >= LASTING {
            unsteady = None;
        }
        let deadline = *unsteady.get_or_insert_with(Instant::now) + patience;
        let returned = tokio::select! {
            () = shared.dropped() => return,
            returned = come_back(&shared, &*reach, &secret, &mut pace, deadline) => returned,
        };
        let stream = match returned {
            Ok(stream) => stream,
            Err(End::Violation(error)) => return shared.end(Over::Violation(error)),
            Err(End::Lost(reason)) => {
                let reason = format!("the connection was lost ({why}): {reason}");
                return shared.end(Over::Lost(reason));
            }
        };
        tracing::debug!("the connection to a sandbox is back");
        begun = Instant::now();
        ended = session::go_on(&shared, stream).await;
    }
}

/// Records that the link's task has ended, even if its runtime shut down.
struct Driven<'a>(&'a Shared);

impl Drop for Driven<'_> {
    fn drop(&mut self) {
        self.0.end_drive();
    }
}

/// Why a link does not return.
enum End {
    Violation(ProtocolError),
    Lost(String),
}

/// Why one attempt failed.
enum Failed {
    Now(String),
    Ever(String),
    Violation(ProtocolError),
}

async fn come_back(
    shared: &Shared,
    reach: &dyn Reach,
    secret: &Key,
    pace: &mut Pace,
    deadline: Instant,
) -> Result<Box<dyn ByteStream>, End> {
    let [mut pause, longest] = PAUSES;
    loop {
        // If there is no turn before the deadline, many attempts were made already.
        let turn = timeout_at(deadline, pace.turn()).await;
        let until = deadline.min(Instant::now() + ATTEMPT);
        let attempted = match turn {
            Ok(()) => timeout_at(until, attempt(shared, reach, secret)).await,
            Err(elapsed) => Err(elapsed),
        };
        let why = match attempted {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(Failed::Ever(why))) => return Err(End::Lost(why)),
            Ok(Err(Failed::Violation(error))) => return Err(End::Violation(error)),
            Ok(Err(Failed::Now(why))) => why,
            Err(_) => "nobody answers".into(),
        };
        let next = Instant::now() + pause;
        if next >= deadline {
            return Err(End::Lost(format!(
                "it did not come back for good before the agent's lease was over: {why}"
            )));
        }
        tracing::debug!(why, "an attempt to come back to a sandbox failed");
        sleep_until(next).await;
        pause = (pause * 2).min(longest);
    }
}

async fn attempt(
    shared: &Shared,
    reach: &dyn Reach,
    secret: &Key,
) -> Result<Box<dyn ByteStream>, Failed> {
    let said = |error: Error| error.context().to_owned();
    let mut stream = reach.open().await.map_err(|error| match error {
        Unreachable::Now(error) => Failed::Now(said(error)),
        Unreachable::Ever(error) => Failed::Ever(said(error)),
    })?;
    let broken = |error: std::io::Error| Failed::Now(error.to_string());
    let resume = answer::resume(secret, shared.received());
    stream.write_all(&resume).await.map_err(broken)?;
    stream.flush().await.map_err(broken)?;
    let received = answer::read(&mut stream).await.map_err(|none| match none {
        NoAnswer::Refused(why) => Failed::Ever(format!("the agent does not go on: {why}")),
        NoAnswer::Violation(error) => Failed::Violation(error),
        NoAnswer::Broken(why) => Failed::Now(why),
    })?;
    shared.resume(received).map_err(Failed::Violation)?;
    Ok(stream)
}
