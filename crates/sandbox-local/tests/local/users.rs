//! The same tests again: as an ordinary user, and as if user namespaces were denied.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::support::{WITHOUT_NAMESPACES, is_root, namespaces};

/// Set in a run of the tests that another run has started.
const AGAIN: &str = "SANDBOX_TEST_AGAIN";

/// Set where whoever runs the tests as root runs them as an ordinary user, too.
const USER_FOLLOWS: &str = "SANDBOX_TEST_USER_FOLLOWS";

/// A user that owns nothing on this machine.
const USER: u32 = 12_345;

/// Set in a run of one test alone.
const ALONE: &str = "SANDBOX_TEST_ALONE";

/// Runs a test in a process of its own.
pub fn alone(name: &str, test: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return test();
    }
    let status = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1")
        .status()
        .expect("started");
    assert!(status.success());
}

#[test]
fn as_an_ordinary_user() {
    if is_root() && is_needed() {
        again(&[]);
    }
}

#[test]
fn without_user_namespaces() {
    if namespaces() && is_needed() {
        again(&[(WITHOUT_NAMESPACES, "1")]);
    }
}

/// Whether nobody else runs the tests again.
fn is_needed() -> bool {
    let follows = is_root() && std::env::var_os(USER_FOLLOWS).is_some();
    if follows {
        println!("NOT RUN here: {USER_FOLLOWS} is set");
    }
    !follows && std::env::var_os(AGAIN).is_none()
}

/// Runs all other tests from a copy of this program that every user may execute.
fn again(variables: &[(&str, &str)]) {
    let folder = tempfile::Builder::new()
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir();
    let folder = folder.expect("a folder");
    let program = folder.path().join("tests");
    std::fs::copy(std::env::current_exe().expect("this test"), &program).expect("copied");
    let runtime = folder.path().join("runtime");
    std::fs::create_dir(&runtime).expect("made");
    std::os::unix::fs::chown(&runtime, is_root().then_some(USER), None).expect("given away");
    std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).expect("set");
    let mut command = Command::new(&program);
    command
        .args(["--test-threads", "2"])
        .current_dir("/")
        .env(AGAIN, "1");
    command
        .env("XDG_RUNTIME_DIR", &runtime)
        .env("HOME", "/nonexistent");
    command.envs(variables.iter().copied());
    if is_root() {
        // Also drops the supplementary groups.
        command.uid(USER).gid(USER);
    }
    let output = command.output().expect("started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // Tests that run alone have a result of their own.
    let results = text.split("test result: ok. ").skip(1);
    let passed = results
        .filter_map(|rest| rest.split(' ').next()?.parse::<u32>().ok())
        .max();
    assert!(
        passed.is_some_and(|passed| passed >= crate::LEAST_TESTS),
        "{text}"
    );
}
