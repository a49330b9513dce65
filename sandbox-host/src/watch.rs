//! Looking after an agent: whether it answers, and whether it ends what it has to.

use std::sync::Arc;
use std::time::Duration;

use sandbox_agent::protocol::Kind;
use tokio::time::Instant;

use crate::clock::OVERTIME;
use crate::connection::{Cause, STALL, Shared};

/// How often the host looks whether the agent does what it has to.
const WATCH_EVERY: Duration = Duration::from_secs(5);

/// How often the host pings, so that the agent's lease stays and a dead agent is noticed.
const PING_EVERY: Duration = Duration::from_secs(10);

/// By how much a look may be late before it tells more of this process, stopped or starved, than of the agent.
const LATE: Duration = Duration::from_secs(1);

/// Pings, and ends the connection to an agent that does not answer, or does not end what it has to. Where the stream can be replaced, it is
/// before the agent is blamed; while there is none, no time passes.
pub(crate) async fn watch(shared: Arc<Shared>) {
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
        // What the agent has answered meanwhile may not have been read yet.
        let gone = away.saturating_sub(away_before);
        let excused = if late > LATE { late } else { gone };
        if !excused.is_zero() {
            asked = asked.map(|asked| asked + excused);
            shared.forgive(excused);
        }
        if late > LATE || shared.is_away() {
            continue;
        }
        let overdue = shared.is_overdue();
        if let Some(at) = asked {
            if *shared.last_frame() >= at {
                asked = None;
                renewed = false;
                // It answers, and yet it does not do what it has to.
                if overdue && suspect {
                    let reason = format!("the agent did not end an execution within {OVERTIME:?}");
                    return shared.end(Cause::Violation, &reason);
                }
            } else if now - at >= STALL {
                if renewed || !shared.renew() {
                    return shared.end(Cause::Stalled, "the sandbox's agent does not answer");
                }
                renewed = true;
                asked = Some(now);
            }
        }
        if asked.is_none() && (overdue || now - pinged >= PING_EVERY) {
            suspect = overdue;
            asked = Some(now);
            pinged = now;
            shared.control(Kind::Ping, b"");
        }
    }
}
