//! Processes of the host, found by their arguments.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A signal that a test sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM.
    Term,
    /// SIGKILL.
    Kill,
}

/// Sends a signal. Does nothing where the process has ended.
pub fn send(pid: u32, signal: Signal) {
    let signal = match signal {
        Signal::Term => "-TERM",
        Signal::Kill => "-KILL",
    };
    let _ = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
}

/// An argument for `sleep` that no other process has: a test finds its processes by it.
pub fn unique_seconds() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{}.{count}", 100_000 + std::process::id())
}

/// The running processes with this text anywhere in their arguments, without the current process.
/// A NUL byte separates two arguments.
///
/// # Panics
///
/// If `/proc` cannot be read.
pub fn containing(text: &str) -> Vec<u32> {
    matching(|arguments| {
        let mut windows = arguments.windows(text.len());
        windows.any(|part| part == text.as_bytes())
    })
}

/// The running processes with an argument that is this text, without the current process.
///
/// # Panics
///
/// If `/proc` cannot be read.
pub fn with_argument(text: &str) -> Vec<u32> {
    matching(|arguments| {
        let mut all = arguments.split(|byte| *byte == 0);
        all.any(|argument| argument == text.as_bytes())
    })
}

fn matching(is_match: impl Fn(&[u8]) -> bool) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("procfs").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        // A zombie has no arguments.
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        *pid != std::process::id() && is_match(&arguments)
    })
    .collect()
}
