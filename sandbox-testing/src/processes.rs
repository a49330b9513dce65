//! Processes of the host, found by their arguments.

use std::process::Command;

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

/// The running processes with this text in their arguments, without the current process.
///
/// # Panics
///
/// If `/proc` cannot be read.
pub fn with_argument(text: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("procfs").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        // A zombie has no arguments.
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        *pid != std::process::id() && String::from_utf8_lossy(&arguments).contains(text)
    })
    .collect()
}
