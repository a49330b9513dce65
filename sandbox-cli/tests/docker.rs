//! `sandbox run -b docker`.

#![cfg(feature = "docker")]

mod common;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{
    await_ready, checkout, exit_code, processes_with, program, run_json, run_text, sandbox, text,
    unique_seconds, wait_until,
};

/// Whether the engine and the default image are there. A test that cannot run says so, and fails
/// where Docker is required; a user who may not talk to the engine is no reason to fail.
fn is_there() -> bool {
    let (code, document) = run_json(&["doctor", "-b", "docker"]);
    if code == Some(0) {
        return true;
    }
    let problem = document["tiers"][0]["problem"].as_str().unwrap_or_default();
    let required = std::env::var("SANDBOX_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|name| name.trim() == "docker");
    assert!(
        !is_required || problem.contains("permission denied"),
        "docker is required: {problem}"
    );
    println!("NOT RUN: docker: {problem}");
    false
}

#[test]
fn exit_codes_are_the_same_as_on_other_tiers() {
    if !is_there() {
        return;
    }
    let run = |arguments: &[&str]| run_text([&["run", "-q", "-b", "docker"], arguments].concat());
    assert_eq!(
        run(&["--", "/bin/true"]),
        (Some(0), String::new(), String::new())
    );
    assert_eq!(
        run(&["-c", "print(6 * 7)"]),
        (Some(0), "42\n".into(), String::new())
    );
    assert_eq!(run(&["--", "sh", "-c", "exit 7"]).0, Some(7));
    assert_eq!(run(&["--", "no-such-program"]).0, Some(127));
    assert_eq!(run(&["--", "/etc/passwd"]).0, Some(126));
    let (code, stdout, _) = run(&[
        "--timeout",
        "1s",
        "--",
        "sh",
        "-c",
        "echo first; trap '' TERM; while :; do :; done",
    ]);
    assert_eq!((code, stdout.as_str()), (Some(124), "first\n"));
}

#[test]
fn example_exports_artifact() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let example = checkout().join("examples/sales");
    let script = example.join("analysis.py");
    let mut command = sandbox(["run", "-b", "docker", "--out", "out", "--read"]);
    let output = command
        .arg(&example)
        .arg(&script)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(
        text(&output.stdout).starts_with("200 orders"),
        "{}",
        text(&output.stdout)
    );
    assert!(
        stderr.contains("sandbox: docker: enforced filesystem, network"),
        "{stderr}"
    );
    assert!(folder.path().join("out/summary.json").exists());
}

#[test]
fn killed_command_leaves_no_processes() {
    if !is_there() {
        return;
    }
    let marker = unique_seconds();
    let mut child = Command::new(program())
        .args(["run", "-b", "docker", "--timeout", "5m", "--", "sh", "-c"])
        .arg(format!("echo ready; trap '' TERM; sleep {marker}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    await_ready(&mut child);
    wait_until("the program is there", Duration::from_secs(5), || {
        !processes_with(&marker).is_empty()
    });
    child.kill().unwrap();
    exit_code(&mut child, Duration::from_secs(5));
    wait_until("the program is gone", Duration::from_secs(5), || {
        processes_with(&marker).is_empty()
    });
}

/// The containers that this process owns or has owned, in any state, as the engine's own command
/// lists them.
fn containers_of(process: u32) -> Vec<String> {
    let listed = Command::new("docker")
        .args(["ps", "--all", "--format"])
        .arg("{{.Names}} {{.Label \"sandbox.owner\"}}")
        .output()
        .unwrap();
    assert!(listed.status.success(), "{}", text(&listed.stderr));
    let owner = format!(":{process}:");
    let listed = text(&listed.stdout);
    let ours = listed.lines().filter(|line| line.contains(&owner));
    ours.map(ToOwned::to_owned).collect()
}

#[test]
fn interrupted_creation_leaves_no_container() {
    if !is_there() {
        return;
    }
    let mut seen = 0;
    // From before the engine knows of the container to well into its start; the last one waits until
    // the engine lists it.
    for delay in [20, 40, 60, 80, 100, 150, 200, 300, 500, 800, 30_000] {
        let mut child = Command::new("env")
            .arg("--default-signal=INT")
            .arg(program())
            .args([
                "run",
                "-b",
                "docker",
                "--timeout",
                "5m",
                "--",
                "sleep",
                "300",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let start = Instant::now();
        let delay = Duration::from_millis(delay);
        if delay < Duration::from_secs(1) {
            std::thread::sleep(delay);
        } else {
            while containers_of(child.id()).is_empty() && start.elapsed() < delay {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        seen += usize::from(!containers_of(child.id()).is_empty());
        let interrupt = Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status();
        assert!(interrupt.unwrap().success());
        exit_code(&mut child, Duration::from_secs(15));
        assert_eq!(containers_of(child.id()), [""; 0], "after {delay:?}");
    }
    assert!(seen > 0, "no container was ever there to be seen");
}

#[test]
fn unreachable_engine_is_reported_with_fix() {
    let start = Instant::now();
    let mut command = sandbox(["run", "-b", "docker", "--", "true"]);
    let output = command
        .env("DOCKER_HOST", "unix:///nonexistent/docker.sock")
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert_eq!(text(&output.stdout), "");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(
        stderr.contains("/nonexistent/docker.sock") && stderr.contains("fix: "),
        "{stderr}"
    );
}
