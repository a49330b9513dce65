//! The command line program, as any user runs it.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use sandbox_testing::{named_tests, trials};
use serde_json::Value;

fn main() -> ExitCode {
    trials::main(&[
        (
            measured_elsewhere("local"),
            named_tests![local_tier_meets_its_claims],
        ),
        (
            measured_elsewhere("self-checks"),
            named_tests![the_suite_proves_itself],
        ),
        (
            None,
            named_tests![
                unsafe_tier_leaks_as_declared,
                unknown_tier_is_an_error_with_its_name,
                arguments_that_measure_nothing_are_refused,
            ],
        ),
        #[cfg(feature = "docker")]
        (None, named_tests![unavailable_required_tier_exits_with_3]),
    ])
}

fn command(folder: &Path) -> Command {
    let program = std::env::var_os("CARGO_BIN_EXE_sandbox-conformance").map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_sandbox-conformance")),
        PathBuf::from,
    );
    let mut command = Command::new(program);
    command.arg("--reports").arg(folder);
    command
}

fn report(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("report.json")).expect("a report");
    serde_json::from_str(&text).expect("JSON")
}

fn assert_success(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The last line contains the counts; failures are printed above it.
fn counts(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .rev()
        .find(|line| line.contains(" passed, "))
        .unwrap_or("")
        .to_owned()
}

/// Why a test does not run if another program of the same test run measures this.
fn measured_elsewhere(what: &str) -> Option<&'static str> {
    let elsewhere = std::env::var("SANDBOX_MEASURED_ELSEWHERE").unwrap_or_default();
    let is_named = elsewhere.split(',').any(|named| named.trim() == what);
    is_named.then_some("another program measures it (SANDBOX_MEASURED_ELSEWHERE)")
}

fn local_tier_meets_its_claims() {
    let folder = tempfile::tempdir().expect("folder");
    let output = command(folder.path())
        .args([
            "--tier",
            "local",
            "--require",
            "local",
            "--skip-self-checks",
        ])
        .output()
        .expect("the command");
    assert_success(&output);
    let report = report(folder.path());
    let findings = report["tiers"][0]["findings"].as_array().expect("findings");
    assert!(findings.len() >= 99, "{}", findings.len());
    let enforced = findings
        .iter()
        .filter(|finding| finding["verdict"] == "enforced")
        .count();
    assert!(
        enforced >= 70,
        "only {enforced} enforced: {}",
        counts(&output)
    );
    assert!(folder.path().join("junit.xml").exists() && folder.path().join("report.md").exists());
}

fn the_suite_proves_itself() {
    let folder = tempfile::tempdir().expect("folder");
    let output = command(folder.path())
        .args(["--self-checks-only"])
        .output()
        .expect("the command");
    assert_success(&output);
    let report = report(folder.path());
    let checks = report["self_checks"].as_array().expect("self-checks");
    assert_eq!(checks.len(), 4);
    for check in checks {
        assert_eq!(check["wrong"].as_array().map(Vec::len), Some(0), "{check}");
    }
}

fn unsafe_tier_leaks_as_declared() {
    let folder = tempfile::tempdir().expect("folder");
    let output = command(folder.path())
        .args(["--tier", "local_unsafe", "--skip-self-checks"])
        .args([
            "--filter",
            "network::tcp",
            "--filter",
            "filesystem::read_outside",
        ])
        .output()
        .expect("the command");
    assert_success(&output);
    let report = report(folder.path());
    let findings = report["tiers"][0]["findings"].as_array().expect("findings");
    assert_eq!(findings.len(), 3);
    for finding in findings {
        // A host without IPv6 cannot run this probe.
        let open =
            finding["id"] == "network::tcp6_host_listener" && finding["verdict"] == "inconclusive";
        assert!(open || finding["verdict"] == "leaked", "{finding}");
        assert_eq!(
            finding["evidence"]["declared"]["status"], "unenforced",
            "{finding}"
        );
    }
}

fn unknown_tier_is_an_error_with_its_name() {
    let folder = tempfile::tempdir().expect("folder");
    let output = command(folder.path())
        .args(["--tier", "nonsense"])
        .output()
        .expect("the command");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("unknown tier \"nonsense\""));
}

fn arguments_that_measure_nothing_are_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let nowhere = folder.path().join("nowhere.json");
    for (option, value, message) in [
        (
            "--filter",
            Path::new("nonsense"),
            "--filter matches no probe",
        ),
        ("--compare", nowhere.as_path(), "nowhere.json"),
    ] {
        let mut command = command(folder.path());
        command.args(["--tier", "local", "--skip-self-checks", option]);
        let output = command.arg(value).output().expect("the command");
        assert_eq!(output.status.code(), Some(1), "{option}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(message), "{option}: {error}");
        assert!(!folder.path().join("report.json").exists(), "{option}");
    }
}

#[cfg(feature = "docker")]
fn unavailable_required_tier_exits_with_3() {
    let folder = tempfile::tempdir().expect("folder");
    let run = |require: &[&str]| {
        let mut command = command(folder.path());
        command
            .args(["--tier", "docker", "--skip-self-checks"])
            .args(require)
            .env("DOCKER_HOST", "unix:///nonexistent/docker.sock");
        command.output().expect("the command")
    };
    let required = run(&["--require", "docker"]);
    assert_eq!(required.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&required.stderr).contains("docker is required"));
    // Without `--require` it is not a success either, because no probe decided anything.
    let optional = run(&[]);
    assert_eq!(optional.status.code(), Some(1));
    let error = String::from_utf8_lossy(&optional.stderr);
    assert!(error.contains("no probe was conclusive"), "{error}");
    assert!(
        counts(&optional).starts_with("0 passed, 0 failed, "),
        "{}",
        counts(&optional)
    );
}
