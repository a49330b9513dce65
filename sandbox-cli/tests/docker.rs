//! `sandbox run -b docker`.

mod common;

use std::io::Read;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use common::{
    await_ready, checkout, exit_code, processes_with, program, run_json, run_text, sandbox, signal,
    text, unique_seconds, wait_until,
};
use sandbox_testing::requirements::is_required;
use sandbox_testing::{named_tests, trials};

fn main() -> ExitCode {
    let missing = missing();
    trials::main(&[
        (
            missing.as_deref(),
            named_tests![
                exit_codes_are_the_same_as_on_other_tiers,
                example_exports_artifact,
                figures_are_exported,
                dockerfile_is_built_and_run,
                killed_command_leaves_no_processes,
                interrupted_creation_leaves_no_container,
            ],
        ),
        (None, named_tests![unreachable_engine_is_reported_with_fix]),
    ])
}

/// Why the engine cannot be used; `None` if it and the default image can.
///
/// # Panics
///
/// If it cannot and `SANDBOX_REQUIRE` names `docker`. A user without access to the engine's socket
/// is no reason to panic.
fn missing() -> Option<String> {
    let (code, document) = run_json(&["doctor", "-b", "docker"]);
    if code == Some(0) {
        return None;
    }
    let problem = document["tiers"][0]["problem"].as_str().unwrap_or_default();
    assert!(
        !is_required("docker") || problem.contains("permission denied"),
        "SANDBOX_REQUIRE names docker, but: {problem}"
    );
    Some(problem.to_owned())
}

fn exit_codes_are_the_same_as_on_other_tiers() {
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

fn dockerfile_is_built_and_run() {
    let folder = tempfile::tempdir().unwrap();
    let dockerfile = "FROM python:3.11-slim\nRUN echo made > /made\n";
    std::fs::write(folder.path().join("Dockerfile"), dockerfile).unwrap();
    let folder = folder.path().to_str().unwrap();
    let run = [
        "run",
        "-q",
        "-b",
        "docker",
        "--rm-image",
        "--dockerfile",
        folder,
    ];
    let (code, stdout, stderr) = run_text([&run[..], &["--", "cat", "/made"]].concat());
    assert_eq!((code, stdout.as_str()), (Some(0), "made\n"), "{stderr}");
}

fn example_exports_artifact() {
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

fn figures_are_exported() {
    let code = "import matplotlib.pyplot as plt; plt.plot([1, 4, 9]); plt.show()";
    for (option, is_exported) in [(None, true), (Some("--no-plots"), false)] {
        let folder = tempfile::tempdir().unwrap();
        let image = "sandbox-test/languages:latest";
        let mut command = sandbox(["run", "-b", "docker", "--image", image, "--out", "out"]);
        command.args(["--timeout", "60s"]).args(option);
        let output = command
            .args(["-c", code])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let stderr = text(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let plot = folder.path().join("out/plot-001.png");
        assert_eq!(plot.exists(), is_exported, "{stderr}");
    }
}

fn killed_command_leaves_no_processes() {
    let marker = unique_seconds();
    let mut child = common::command(&["run", "-b", "docker", "--timeout", "5m", "--", "sh", "-c"])
        .arg(format!("echo ready; trap '' TERM; sleep {marker}"))
        .spawn()
        .unwrap();
    await_ready(&mut child);
    wait_until("the program runs", Duration::from_secs(20), || {
        !processes_with(&marker).is_empty()
    });
    child.kill().unwrap();
    exit_code(&mut child, Duration::from_secs(20));
    wait_until("the program has ended", Duration::from_secs(20), || {
        processes_with(&marker).is_empty()
    });
}

/// The containers in any state whose owner is or was this process, from `docker ps`.
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

fn interrupted_creation_leaves_no_container() {
    let mut seen = 0;
    // The delays reach from before the container's creation to after its start. The last run waits
    // until the engine lists the container.
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
            .stderr(Stdio::piped())
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
        signal(&child, "-INT");
        exit_code(&mut child, Duration::from_secs(60));
        let mut stderr = String::new();
        let pipe = child.stderr.as_mut().unwrap();
        pipe.read_to_string(&mut stderr).unwrap();
        assert_eq!(
            containers_of(child.id()),
            [""; 0],
            "after {delay:?}: {stderr}"
        );
    }
    assert!(seen > 0, "the engine never listed a container");
}

fn unreachable_engine_is_reported_with_fix() {
    let start = Instant::now();
    let mut command = sandbox(["run", "-b", "docker", "--", "true"]);
    let output = command
        .env("DOCKER_HOST", "unix:///nonexistent/docker.sock")
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert!(
        start.elapsed() < Duration::from_secs(20),
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
