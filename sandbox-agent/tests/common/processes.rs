//! Processes of a test, seen from the host.

use std::time::Duration;

pub use sandbox_testing::processes::unique_seconds;

/// Number of processes with this argument.
pub fn alive(argument: &str) -> usize {
    sandbox_testing::processes::with_argument(argument).len()
}

/// Waits for a condition for at most 10 s.
#[track_caller]
pub fn wait_until(what: &str, holds: impl FnMut() -> bool) {
    sandbox_testing::wait::wait_until(what, Duration::from_secs(10), holds);
}
