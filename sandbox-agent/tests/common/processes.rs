//! Processes as the host of the tests sees them.

use std::{
    process::Command,
    time::{Duration, Instant},
};

/// A number that marks the processes of one test.
pub fn mark(number: u32) -> String {
    format!(
        "{}",
        1_000_000 + std::process::id() * 100 % 1_000_000 + number
    )
}

/// How many processes have the mark as an argument of `sleep`.
pub fn alive(mark: &str) -> usize {
    let output = Command::new("ps").args(["-eo", "args"]).output().unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("sleep") && line.contains(mark))
        .count()
}

/// Waits until something holds.
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
