//! Examples that need a cluster print what their descriptions say. Cargo builds them with the tests.

use std::process::{Command, ExitCode};

use sandbox_testing::requirements::is_required;
use sandbox_testing::{named_tests, trials};

/// An image with Python, which the nodes have.
const PYTHON: &str = "sandbox-test/python:latest";

fn main() -> ExitCode {
    let missing = missing();
    trials::main(&[(
        missing.as_deref(),
        named_tests![pod_with_limits_runs_code_and_reports_what_is_enforced],
    )])
}

/// Why no cluster can be used; `None` if one is named.
///
/// # Panics
///
/// If none is and `SANDBOX_REQUIRE` names `k8s`.
fn missing() -> Option<String> {
    let named = std::env::var_os("KUBECONFIG").filter(|file| std::path::Path::new(file).exists());
    if named.is_some() {
        return None;
    }
    let problem = "KUBECONFIG names no file".to_owned();
    assert!(
        !is_required("k8s"),
        "SANDBOX_REQUIRE names k8s, but: {problem}"
    );
    Some(problem)
}

fn pod_with_limits_runs_code_and_reports_what_is_enforced() {
    let own = std::env::current_exe().expect("this program");
    // `target/debug/deps/k8s_examples-…` is this program.
    let folder = own.ancestors().nth(2).expect("the folder of the profile");
    let example = folder.join("examples/kubernetes");
    let output = Command::new(&example).arg(PYTHON).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", example.display()));
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{text}{errors}");
    for line in ["memory: enforced", "cpus: enforced", "timeout: enforced"] {
        assert!(text.lines().any(|own| own == line), "{line}: {text}");
    }
    assert!(text.ends_with("hello from Linux\n"), "{text}");
}
