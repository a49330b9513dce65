//! Waits for conditions.

use std::time::{Duration, Instant};

/// Time between two checks of a condition.
const INTERVAL: Duration = Duration::from_millis(10);

/// Waits until the condition holds.
///
/// # Panics
///
/// If it does not hold within `limit`.
#[track_caller]
pub fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(INTERVAL);
    }
}

/// Waits until the asynchronous condition holds, without blocking the thread.
///
/// # Panics
///
/// If it does not hold within `limit`.
#[cfg(feature = "async")]
#[track_caller]
pub fn wait_until_async(
    what: &str,
    limit: Duration,
    mut condition: impl AsyncFnMut() -> bool,
) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let start = Instant::now();
        while !condition().await {
            let elapsed = start.elapsed();
            assert!(elapsed < limit, "{caller}: not within {limit:?}: {what}");
            tokio::time::sleep(INTERVAL).await;
        }
    }
}
