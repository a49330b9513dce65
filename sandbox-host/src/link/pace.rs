//! How often another stream is opened: whoever cuts each at once, the guest perhaps, must not make the host flood an API server.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// So many may follow each other at once.
const BURST: u32 = 20;

/// After those, there is one in this time.
const EVERY: Duration = Duration::from_secs(1);

/// Turns that come back with time.
#[derive(Debug)]
pub(super) struct Pace {
    turns: u32,
    /// Since when the next one is on its way.
    since: Instant,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self {
            turns: BURST,
            since: Instant::now(),
        }
    }

    /// Waits for a turn. Dropped meanwhile, it takes none.
    pub(super) async fn turn(&mut self) {
        while self.turns < BURST && self.since.elapsed() >= EVERY {
            self.turns += 1;
            self.since += EVERY;
        }
        if self.turns == BURST {
            self.since = Instant::now();
        }
        if self.turns == 0 {
            let next = self.since + EVERY;
            sleep_until(next).await;
            self.since = next;
        } else {
            self.turns -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_at_once_are_followed_by_few() {
        let mut pace = Pace::new();
        let start = Instant::now();
        for _ in 0..BURST {
            pace.turn().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        for number in 1..10 {
            pace.turn().await;
            assert_eq!(start.elapsed(), EVERY * number);
        }
        tokio::time::sleep(EVERY * 1000).await;
        let start = Instant::now();
        for _ in 0..=BURST {
            pace.turn().await;
        }
        assert_eq!(start.elapsed(), EVERY);
    }
}
