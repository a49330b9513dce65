//! How long an agent may take.

use std::time::Duration;

use tokio::time::Instant;

/// How long after its time limit, or after an order to kill, an execution may go on before the sandbox is given up. The agent's
/// own bounds for a kill sum up to 6 s.
pub(crate) const OVERTIME: Duration = Duration::from_secs(10);

/// The time that the agent has had for an execution: not what the receiver of the output took for itself.
#[derive(Debug)]
pub(crate) struct Clock {
    opened: Instant,
    /// How long the receiver has kept the agent waiting.
    held: Duration,
    /// Since when the receiver has not come back.
    taken: Option<Instant>,
    /// How much time there is.
    limit: Option<Duration>,
}

impl Clock {
    /// Starts now. The execution has `limit`, and some overtime.
    pub(crate) fn start(limit: Option<Duration>) -> Self {
        Self {
            opened: Instant::now(),
            held: Duration::ZERO,
            taken: None,
            limit: limit.map(|limit| limit.saturating_add(OVERTIME)),
        }
    }

    fn used(&self, now: Instant) -> Duration {
        let holding = self.taken.map_or(Duration::ZERO, |taken| now - taken);
        (now - self.opened).saturating_sub(self.held + holding)
    }

    /// The receiver has taken output.
    pub(crate) fn leave(&mut self) {
        self.taken = Some(Instant::now());
    }

    /// The receiver wants more, or will not want any.
    pub(crate) fn come_back(&mut self) {
        if let Some(taken) = self.taken.take() {
            self.held += taken.elapsed();
        }
    }

    /// The agent was told to end the execution.
    pub(crate) fn expect_end(&mut self) {
        let limit = self.used(Instant::now()) + OVERTIME;
        self.limit = Some(self.limit.map_or(limit, |earlier| earlier.min(limit)));
    }

    /// Whether the agent has had more time than there was.
    pub(crate) fn is_over(&self) -> bool {
        let limit = self.limit;
        limit.is_some_and(|limit| self.used(Instant::now()) > limit)
    }

    /// Leaves out time in which this process did not run.
    pub(crate) fn forgive(&mut self, time: Duration) {
        self.held += time;
    }
}
