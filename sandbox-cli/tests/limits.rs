//! `sandbox run`: programs that exceed a limit are stopped, and the error names the limit.

#![cfg(feature = "local")]

mod common;

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{processes_with, program, run_json, run_text, text, unique_seconds, wait_until};

/// The longest that a run may take beyond its time limit.
const SLACK: Duration = Duration::from_secs(20);

#[test]
fn time_limit_kills_process_tree_and_keeps_output() {
    let marker = unique_seconds();
    let script =
        format!("trap '' TERM; echo first line; setsid sleep {marker} & while :; do :; done");
    let start = Instant::now();
    let (code, stdout, stderr) =
        run_text(["run", "--timeout", "1s", "--", "/bin/sh", "-c", &script]);
    assert!(
        start.elapsed() < Duration::from_secs(1) + SLACK,
        "{:?}",
        start.elapsed()
    );
    assert_eq!(
        (code, stdout.as_str()),
        (Some(124), "first line\n"),
        "{stderr}"
    );
    let line = "sandbox: timed out: the execution was killed at its time limit (timeout = 1s); a retry will not help";
    assert!(stderr.contains(line), "{stderr}");
    wait_until("the tree has ended", Duration::from_secs(20), || {
        processes_with(&marker).is_empty()
    });
}

#[test]
fn background_child_holding_stdout_is_killed_at_exit() {
    let marker = unique_seconds();
    let script = format!("(setsid sleep {marker} &) ; echo done");
    let start = Instant::now();
    let (code, stdout, stderr) = run_text(["run", "--", "/bin/sh", "-c", &script]);
    assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
    assert_eq!((code, stdout.as_str()), (Some(0), "done\n"), "{stderr}");
    wait_until("the child has ended", Duration::from_secs(20), || {
        processes_with(&marker).is_empty()
    });
}

#[test]
fn exceeding_memory_exits_with_137() {
    let code = "x = bytearray(1)\nwhile True:\n    x += bytes(1 << 20)";
    // Without usable cgroups, a sampler enforces the limit.
    let (exit, result) = run_json(&[
        "run",
        "--memory",
        "64MiB",
        "--allow-partial",
        "memory",
        "-c",
        code,
    ]);
    let outcome = result["outcome"]["kind"].as_str().unwrap();
    // Python may notice the failed allocation itself, and then raises MemoryError.
    let noticed = outcome == "exited" && result["stderr"].as_str().unwrap().contains("MemoryError");
    assert!(
        (outcome == "out_of_memory" && exit == Some(137)) || noticed,
        "{exit:?} {result}"
    );
}

#[test]
fn fork_bomb_is_contained() {
    let marker = unique_seconds();
    let script = format!("i=0; while [ $i -lt 500 ]; do sleep {marker} & i=$((i+1)); done; wait");
    let arguments = [
        "run",
        "--pids",
        "32",
        "--timeout",
        "5s",
        "--allow-partial",
        "pids",
    ];
    let start = Instant::now();
    let (code, _, stderr) = run_text(arguments.iter().chain(&["--", "/bin/sh", "-c", &script]));
    assert!(start.elapsed() < Duration::from_secs(5) + SLACK);
    assert_ne!(code, Some(0));
    assert!(
        code == Some(124) || stderr.contains("fork"),
        "{code:?} {stderr}"
    );
    wait_until("the fork bomb has ended", Duration::from_secs(20), || {
        processes_with(&marker).is_empty()
    });
}

#[test]
fn excessive_output_is_truncated_in_constant_memory() {
    let mut child = Command::new(program())
        .args([
            "run",
            "--stdout-max",
            "1MiB",
            "--",
            "head",
            "-c",
            "1073741824",
            "/dev/zero",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let peak = std::thread::spawn(move || {
        let mut peak = 0_u64;
        // Until the process has ended, or is a zombie without memory.
        while let Ok(status) = std::fs::read_to_string(&status) {
            let Some(line) = status.lines().find_map(|line| line.strip_prefix("VmHWM:")) else {
                break;
            };
            peak = line.trim().trim_end_matches(" kB").parse().unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        peak
    });
    let mut stdout = Vec::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_end(&mut stdout)
        .unwrap();
    let mut stderr = Vec::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_end(&mut stderr)
        .unwrap();
    let code = child.wait().unwrap().code();
    let (stderr, peak) = (text(&stderr), peak.join().unwrap());
    assert_eq!(code, Some(137), "{stderr}");
    assert_eq!(stdout.len(), 1 << 20);
    assert!(
        stderr.contains("far more standard output than is kept"),
        "{stderr}"
    );
    assert!(
        stderr.contains("standard output cut: 1048576 of "),
        "{stderr}"
    );
    assert!(peak > 0 && peak < 64 * 1024, "{peak} kB");
}

#[test]
fn json_distinguishes_exceeded_limits() {
    let (code, result) = run_json(&[
        "run",
        "--timeout",
        "1s",
        "-c",
        "import time; print('x', flush=True); time.sleep(60)",
    ]);
    assert_eq!(
        (code, result["outcome"]["kind"].as_str()),
        (Some(124), Some("timed_out"))
    );
    assert_eq!(result["stdout"], "x\n");
    assert_eq!(result["exit_code"], 124);
    let (code, result) = run_json(&["run", "--stdout-max", "3", "--", "printf", "12345"]);
    assert_eq!(code, Some(0));
    assert_eq!(result["stdout"], "123");
    assert_eq!(result["stdout_truncated"], true);
    assert_eq!(result["stdout_total_bytes"], 5);
}

#[test]
fn messages_about_limits_name_the_option() {
    let (code, _, stderr) = run_text(["run", "-q", "--timeout", "300ms", "--", "sleep", "9"]);
    assert_eq!(code, Some(124));
    assert!(stderr.contains("--timeout sets a higher limit"), "{stderr}");
}

#[test]
fn missing_artifacts_fail_with_strict() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    let line = ["run", "-q", "--artifact", "/output/x", "--out", out];
    let run = |more: &[&str]| run_text([&line[..], more].concat());
    assert_eq!(run(&["--", "true"]).0, Some(0));
    let (code, _, stderr) = run(&["--strict", "--", "true"]);
    assert_eq!(code, Some(125));
    assert!(stderr.contains("/output/x: not found"), "{stderr}");
    assert_eq!(
        run(&["--strict", "--", "sh", "-c", "echo 1 > /output/x"]).0,
        Some(0)
    );
    assert_eq!(run(&["--strict", "--", "sh", "-c", "exit 3"]).0, Some(3));
}
