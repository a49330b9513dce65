//! The watchdog of an agent: checks that it answers and ends what it has to.

use std::sync::Arc;
use std::time::Duration;

use sandbox_agent::protocol::FrameKind;
use tokio::time::Instant;

use crate::agent_timeouts::{KILL, STALL};
use crate::connection::{ConnectionShared, EndCause};

/// The interval of the checks.
const WATCH_EVERY: Duration = Duration::from_secs(5);

/// The interval of pings, which renew the agent's lease and detect a dead agent.
const PING_EVERY: Duration = Duration::from_secs(10);

/// If a check is this late, this process was paused or starved, so the agent is not blamed.
const LATE: Duration = Duration::from_secs(1);

/// Pings the agent, and ends the connection if the agent does not answer or is overdue. If the
/// stream can be replaced, that is tried first; while there is no stream, no time counts.
pub(crate) async fn watch(shared: Arc<ConnectionShared>) {
    let mut asked = None;
    let mut pinged = Instant::now();
    let mut suspect = false;
    let mut renewed = false;
    let mut away = Duration::ZERO;
    loop {
        let begun = Instant::now();
        tokio::time::sleep(WATCH_EVERY).await;
        let now = Instant::now();
        let late = (now - begun).saturating_sub(WATCH_EVERY);
        let away_before = std::mem::replace(&mut away, shared.time_away());
        // Answers that arrived meanwhile may not have been read yet.
        let gone = away.saturating_sub(away_before);
        let excused = if late > LATE { late } else { gone };
        if !excused.is_zero() {
            asked = asked.map(|asked| asked + excused);
            shared.exclude(excused);
        }
        if late > LATE || shared.is_away() {
            continue;
        }
        let overdue = shared.is_overdue();
        if let Some(at) = asked {
            if *shared.last_frame() >= at {
                asked = None;
                renewed = false;
                // It answers pings but does not do what it has to.
                if overdue && suspect {
                    let reason = format!("the agent did not end an execution within {KILL:?}");
                    return shared.end(EndCause::Violation, &reason);
                }
            } else if now - at >= STALL {
                if renewed || !shared.renew() {
                    return shared.end(EndCause::Stalled, "the sandbox's agent does not answer");
                }
                renewed = true;
                asked = Some(now);
            }
        }
        if asked.is_none() && (overdue || now - pinged >= PING_EVERY) {
            suspect = overdue;
            asked = Some(now);
            pinged = now;
            shared.control(FrameKind::Ping, b"");
        }
    }
}
