//! Processes by what they were started with.

use std::process::Command;

/// What a process is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Term,
    Kill,
}

pub fn send(pid: u32, signal: Signal) {
    let signal = match signal {
        Signal::Term => "-TERM",
        Signal::Kill => "-KILL",
    };
    // It may have ended by itself.
    let _ = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
}

/// The processes that were started with this in their arguments, but for this one, its children that are tests, and those that have
/// ended.
pub fn naming(text: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("procfs").flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter(|pid| {
            // One that has ended has no arguments.
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            *pid != std::process::id() && String::from_utf8_lossy(&arguments).contains(text)
        })
        .collect()
}
