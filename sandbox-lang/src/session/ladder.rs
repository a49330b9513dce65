//! What happens to a cell that does not end.

use std::time::Duration;

use tokio::time::Instant;

/// How long an interrupted cell has to end.
const INTERRUPTED: Duration = Duration::from_secs(2);

/// How long it has after the processes that it started were killed.
const WITHOUT_CHILDREN: Duration = Duration::from_secs(1);

/// The next step against a cell that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LadderStep {
    Interrupt,
    KillChildren,
    Kill,
}

/// The steps in order, each with its time.
#[derive(Debug)]
pub(super) struct Ladder {
    next: LadderStep,
    due: Instant,
}

impl Ladder {
    /// Begins at a cell's time limit.
    pub(super) fn new(limit: Instant) -> Self {
        Self {
            next: LadderStep::Interrupt,
            due: limit,
        }
    }

    /// When the next step is due.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Whether the cell was interrupted.
    pub(super) fn has_begun(&self) -> bool {
        self.next != LadderStep::Interrupt
    }

    /// Begins now, if it has not begun.
    pub(super) fn begin(&mut self) {
        if !self.has_begun() {
            self.due = Instant::now();
        }
    }

    /// The step that is due.
    pub(super) fn climb(&mut self) -> LadderStep {
        let step = self.next;
        let (next, wait) = match step {
            LadderStep::Interrupt => (LadderStep::KillChildren, INTERRUPTED),
            LadderStep::KillChildren | LadderStep::Kill => (LadderStep::Kill, WITHOUT_CHILDREN),
        };
        self.next = next;
        self.due = Instant::now() + wait;
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn cell_is_interrupted_then_loses_its_children_then_is_killed() {
        let start = Instant::now();
        let mut ladder = Ladder::new(start + Duration::from_secs(10));
        let mut steps = Vec::new();
        while steps.len() < 3 {
            tokio::time::sleep_until(ladder.due()).await;
            steps.push((ladder.climb(), start.elapsed().as_secs()));
        }
        let expected = [
            (LadderStep::Interrupt, 10),
            (LadderStep::KillChildren, 12),
            (LadderStep::Kill, 13),
        ];
        assert_eq!(steps, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_cell_is_interrupted_once_and_at_once() {
        let mut ladder = Ladder::new(Instant::now() + Duration::from_secs(10));
        ladder.begin();
        assert_eq!(ladder.due(), Instant::now());
        assert_eq!(ladder.climb(), LadderStep::Interrupt);
        let due = ladder.due();
        ladder.begin();
        assert_eq!(ladder.due(), due);
    }
}
