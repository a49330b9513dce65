//! Helpers of the command's tests.

#![allow(dead_code, unused_imports, reason = "each test program uses its part")]

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub use sandbox_testing::processes::{unique_seconds, with_argument as processes_with};
pub use sandbox_testing::wait::wait_until;
use serde_json::Value;

/// The longest that a command may run: one that hangs fails its test.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The command's program. `SANDBOX_TEST_BIN` names another one for users who cannot read this one.
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
    command.args(arguments).timeout(TIMEOUT);
    command
}

/// Runs the command with these arguments.
pub fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Output {
    sandbox(arguments).output().unwrap()
}

/// Runs the command. Returns its exit code, standard output and standard error.
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
    assert_eq!(text(&output.stderr), "", "only the object is written");
    let value = serde_json::from_slice(&output.stdout);
    (
        output.status.code(),
        value.unwrap_or_else(|e| panic!("{e}: {}", text(&output.stdout))),
    )
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The command with these arguments, without standard input and error, and with a pipe for standard
/// output. It is not started.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// Sends a signal to a child process, such as `-INT`.
pub fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// Waits until the program that a command runs prints `ready`, and closes the command's output.
pub fn await_ready(child: &mut Child) {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "ready\n");
}

/// Waits for a child process to end. Returns its exit code; `None` if a signal ended it.
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
