//! Bounds how long an agent may take.

use std::time::Duration;

use tokio::time::Instant;

use crate::agent_timeouts;

/// The time that the agent has used for an execution. Excludes the time that the output's receiver
/// took.
#[derive(Debug)]
pub(crate) struct Clock {
    opened: Instant,
    /// How long the receiver has kept the agent waiting so far.
    held: Duration,
    /// When the receiver took output that it is still processing.
    taken: Option<Instant>,
    /// The available time; `None` for unlimited.
    limit: Option<Duration>,
}

impl Clock {
    /// Starts the clock for an execution with this time limit, and adds [`agent_timeouts::KILL`].
    pub(crate) fn start(limit: Option<Duration>) -> Self {
        Self {
            opened: Instant::now(),
            held: Duration::ZERO,
            taken: None,
            limit: limit.map(|limit| limit.saturating_add(agent_timeouts::KILL)),
        }
    }

    fn used(&self, now: Instant) -> Duration {
        let holding = self.taken.map_or(Duration::ZERO, |taken| now - taken);
        (now - self.opened).saturating_sub(self.held + holding)
    }

    /// The receiver starts processing output.
    pub(crate) fn begin_processing(&mut self) {
        self.taken = Some(Instant::now());
    }

    /// The receiver has finished processing.
    pub(crate) fn end_processing(&mut self) {
        if let Some(taken) = self.taken.take() {
            self.held += taken.elapsed();
        }
    }

    /// Limits the agent's time after a request to end the execution.
    pub(crate) fn expect_end(&mut self) {
        let limit = self.used(Instant::now()) + agent_timeouts::KILL;
        self.limit = Some(self.limit.map_or(limit, |earlier| earlier.min(limit)));
    }

    /// Whether the agent has used up its time.
    pub(crate) fn is_over(&self) -> bool {
        let limit = self.limit;
        limit.is_some_and(|limit| self.used(Instant::now()) > limit)
    }

    /// Excludes time in which this process was paused.
    pub(crate) fn exclude(&mut self, time: Duration) {
        self.held += time;
    }
}
