//! Processes of a test, seen from the host.

use std::{
    process::Command,
    time::{Duration, Instant},
};

/// An argument of `sleep` that identifies the processes of one test.
pub fn mark(number: u32) -> String {
    format!(
        "{}",
        1_000_000 + std::process::id() * 100 % 1_000_000 + number
    )
}

/// Number of `sleep` processes with this mark.
pub fn alive(mark: &str) -> usize {
    let output = Command::new("ps").args(["-eo", "args"]).output().unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("sleep") && line.contains(mark))
        .count()
}

/// Waits for a condition for at most 10 s.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "not in 10 s: {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
