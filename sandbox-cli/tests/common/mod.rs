//! What the tests of the command share.

#![allow(dead_code, reason = "each test program uses its part")]

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longer than any run here may take: a command that hangs fails its test.
const PATIENCE: Duration = Duration::from_secs(60);

/// The command's program. Another one can be named where this one cannot be read.
pub fn program() -> PathBuf {
    let named = std::env::var_os("SANDBOX_TEST_BIN").map(PathBuf::from);
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_sandbox").into())
}

/// The workspace's folder.
pub fn checkout() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    package
        .unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into())
        .join("..")
        .canonicalize()
        .unwrap()
}

/// The command with these arguments, without standard input.
pub fn sandbox<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> assert_cmd::Command {
    let mut command = assert_cmd::Command::new(program());
    command.args(arguments).timeout(PATIENCE);
    command
}

/// Runs the command with these arguments.
pub fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Output {
    sandbox(arguments).output().unwrap()
}

/// Runs the command and tells its exit code, and what it wrote, as text.
pub fn run_text<A: AsRef<OsStr>>(
    arguments: impl IntoIterator<Item = A>,
) -> (Option<i32>, String, String) {
    let output = run(arguments);
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Runs the command with `-o json` and reads the object.
pub fn run_json(arguments: &[&str]) -> (Option<i32>, Value) {
    let output = run([&arguments[..1], &["-o", "json"], &arguments[1..]].concat());
    assert_eq!(
        text(&output.stderr),
        "",
        "nothing but the object is written"
    );
    let value = serde_json::from_slice(&output.stdout);
    (
        output.status.code(),
        value.unwrap_or_else(|e| panic!("{e}: {}", text(&output.stdout))),
    )
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A number that stands for this test in command lines: `sleep` for so many seconds is nobody
/// else's.
pub fn unique_seconds() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{}.{}", 100_000 + std::process::id(), count)
}

/// The host's processes with this argument.
pub fn processes_with(argument: &str) -> Vec<u32> {
    let has_it = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .any(|part| part == argument.as_bytes())
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(has_it)
        .collect()
}

/// Waits until the program that a command runs has said that it is ready, and closes the command's
/// output.
pub fn await_ready(child: &mut Child) {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "ready\n");
}

/// Waits until something is true.
pub fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for a process of ours to end, and tells its exit code.
pub fn exit_code(child: &mut Child, limit: Duration) -> Option<i32> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if start.elapsed() > limit {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("still running after {limit:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
