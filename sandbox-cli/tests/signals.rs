//! `sandbox run`: the end of the command ends the sandbox.

#![cfg(feature = "local")]

mod common;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use common::{exit_code, processes_with, program, signal, unique_seconds, wait_until};

/// Starts a sandbox with processes that ignore SIGTERM. Returns after they run.
fn start(marker: &str) -> (Child, BufReader<ChildStdout>) {
    let script = format!(
        "trap '' TERM INT HUP; setsid sleep {marker} & echo ready; while :; do sleep {marker}; done"
    );
    // The command inherits ignored signals, and `nohup` ignores SIGHUP.
    let mut command = Command::new("env");
    command
        .arg("--default-signal=HUP,INT,TERM")
        .arg(program())
        .args(["run", "--timeout", "5m", "--", "/bin/sh", "-c", &script])
        .stdin(Stdio::null());
    let (child, stdout) = await_ready_of(&mut command);
    wait_until("the tree runs", Duration::from_secs(20), || {
        processes_with(marker).len() >= 2
    });
    (child, stdout)
}

/// Starts a command, and waits until its program prints `ready`. Returns the rest of the output.
fn await_ready_of(command: &mut Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    if line != "ready\n" {
        child.kill().unwrap();
        let mut stderr = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut stderr)
            .unwrap();
        child.wait().unwrap();
        panic!("{line:?} {stderr}");
    }
    (child, stdout)
}

/// The time in which the command itself is stopped does not count.
#[test]
fn time_limit_excludes_time_while_stopped() {
    let run = ["run", "-q", "--timeout", "2s", "--", "/bin/sh", "-c"];
    let mut command = common::command(&run);
    command.arg("echo ready; sleep 1; echo done; exit 3");
    let (mut child, mut stdout) = await_ready_of(&mut command);
    signal(&child, "-STOP");
    // Longer than the time limit and all bounds of the command's own clocks.
    std::thread::sleep(Duration::from_secs(20));
    signal(&child, "-CONT");
    assert_eq!(exit_code(&mut child, Duration::from_secs(20)), Some(3));
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "done\n");
}

#[test]
fn signals_kill_process_tree() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let marker = unique_seconds();
        let (mut child, _stdout) = start(&marker);
        common::signal(&child, signal);
        assert_eq!(
            exit_code(&mut child, Duration::from_secs(10)),
            Some(code),
            "{signal}"
        );
        wait_until("the tree has ended", Duration::from_secs(20), || {
            processes_with(&marker).is_empty()
        });
    }
}

#[test]
fn killed_command_leaves_no_processes() {
    let marker = unique_seconds();
    let (mut child, _stdout) = start(&marker);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the tree has ended", Duration::from_secs(20), || {
        processes_with(&marker).is_empty()
    });
}

#[test]
fn closed_stdout_ends_the_run() {
    let marker = unique_seconds();
    let script = format!("sleep {marker} & yes");
    let mut child = common::command(&["run", "--", "/bin/sh", "-c", &script])
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 100]).unwrap();
    drop(stdout);
    assert_eq!(exit_code(&mut child, Duration::from_secs(10)), Some(141));
    wait_until("the tree has ended", Duration::from_secs(20), || {
        processes_with(&marker).is_empty()
    });
}

#[test]
fn time_limit_applies_while_stdout_reader_stalls() {
    let mut child = common::command(&["run", "--timeout", "1s", "--", "yes"])
        .spawn()
        .unwrap();
    // The pipe is full at once. The program ends at its time limit, and its output waits for the
    // reader.
    std::thread::sleep(Duration::from_secs(3));
    assert!(
        processes_of(&child).is_empty(),
        "{:?}",
        processes_of(&child)
    );
    let mut stdout = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || stdout.read_to_end(&mut Vec::new()));
    assert_eq!(exit_code(&mut child, Duration::from_secs(10)), Some(124));
    assert!(reader.join().unwrap().unwrap() > 0);
}

/// The processes below a process.
fn processes_of(child: &Child) -> Vec<String> {
    let path = format!("/proc/{0}/task/{0}/children", child.id());
    std::fs::read_to_string(path)
        .unwrap()
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}
