//! Limits how often streams are opened. Even if something, perhaps the sandbox, cuts each stream at
//! once, the host must not flood an API server.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Turns available at once.
const BURST: u32 = 20;

/// The time after which one more turn is available.
const EVERY: Duration = Duration::from_secs(1);

/// A token bucket of turns.
#[derive(Debug)]
pub(super) struct ReconnectLimit {
    turns: u32,
    /// When the last turn was added.
    since: Instant,
}

impl ReconnectLimit {
    pub(super) fn new() -> Self {
        Self {
            turns: BURST,
            since: Instant::now(),
        }
    }

    /// Waits for a turn. Cancel safe: dropping the future uses no turn.
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
    async fn burst_of_reconnects_is_followed_by_few() {
        let mut pace = ReconnectLimit::new();
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
