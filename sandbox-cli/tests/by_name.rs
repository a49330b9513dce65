//! Detached sandboxes are found by name without the engines that do not have them.

mod common;

use std::os::unix::net::UnixListener;
use std::path::Path;

use assert_cmd::Command;
use common::{program, sandbox, text, unique_seconds};
use sandbox_testing::users::is_root;

/// A Docker engine that accepts connections and never answers.
struct SilentEngine {
    listener: UnixListener,
    address: String,
    _folder: tempfile::TempDir,
}

impl SilentEngine {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("docker.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self {
            listener,
            address: format!("unix://{}", socket.display()),
            _folder: folder,
        }
    }

    /// Runs the command with this engine. Returns its exit code, standard output and error.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut command = sandbox(arguments);
        let output = command.env("DOCKER_HOST", &self.address).output().unwrap();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    }

    /// Whether a client has connected.
    fn was_asked(&self) -> bool {
        self.listener.accept().is_ok()
    }
}

/// A name that no other test uses.
fn unique_name() -> String {
    format!("by-name-{}", unique_seconds().replace('.', "-"))
}

#[test]
fn recorded_sandbox_is_used_without_asking_other_tiers() {
    let engine = SilentEngine::start();
    let name = unique_name();
    let created = engine.run(&["create", "--name", &name, "--ttl", "2m", "-q"]);
    assert_eq!(created.0, Some(0), "{}", created.2);
    for (arguments, code) in [
        (&["exec", &name, "--", "sh", "-c", "exit 7"][..], 7),
        (&["logs", &name], 0),
        (&["cp", "/etc/hostname", &format!("{name}:/tmp/host")], 0),
        (&["rm", &name], 0),
    ] {
        let (found, _, stderr) = engine.run(arguments);
        assert_eq!(found, Some(code), "{arguments:?}: {stderr}");
        assert!(!engine.was_asked(), "{arguments:?}");
    }
}

#[test]
fn list_shows_what_it_has_and_names_the_silent_tier() {
    let engine = SilentEngine::start();
    let name = unique_name();
    let created = engine.run(&["create", "--name", &name, "--ttl", "2m", "-q"]);
    assert_eq!(created.0, Some(0), "{}", created.2);
    let (_, stdout, stderr) = engine.run(&["ls"]);
    assert!(
        stdout.lines().any(|line| line.starts_with(&name)),
        "{stdout}"
    );
    assert!(
        stderr.contains("docker did not answer within 1 s"),
        "{stderr}"
    );
    let (code, _, stderr) = engine.run(&["rm", &name]);
    assert_eq!(code, Some(0), "{stderr}");
}

#[test]
fn unknown_name_is_searched_on_all_tiers() {
    let engine = SilentEngine::start();
    let (code, _, stderr) = engine.run(&["exec", &unique_name(), "--", "true"]);
    assert_eq!(code, Some(125), "{stderr}");
    assert!(engine.was_asked());
    assert!(stderr.contains("docker did not answer"), "{stderr}");
}

/// The command without state of this user: detached sandboxes on Docker are a reason to mention it,
/// and other tests make some.
fn sandbox_without_state(arguments: &[&str], empty: &Path) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("unshare");
        let script = "mount --bind \"$0\" /run && exec \"$@\"";
        command.args(["--mount", "sh", "-c", script]);
        command.arg(empty).arg(program()).args(arguments);
        command
    } else {
        sandbox(arguments)
    };
    command.env("XDG_RUNTIME_DIR", empty);
    command
}

#[test]
fn absent_engine_is_not_mentioned() {
    let missing = Path::new("/nonexistent/docker.sock");
    let address = format!("unix://{}", missing.display());
    let name = unique_name();
    for arguments in [&["ls"][..], &["exec", &name, "--", "true"]] {
        let empty = tempfile::tempdir().unwrap();
        let mut command = sandbox_without_state(arguments, empty.path());
        let output = command.env("DOCKER_HOST", &address).output().unwrap();
        let stderr = text(&output.stderr);
        assert_ne!(output.status.code(), Some(127), "{stderr}");
        assert!(!stderr.contains("docker"), "{stderr}");
    }
    let mut command = sandbox(["doctor"]);
    let output = command.env("DOCKER_HOST", &address).output().unwrap();
    let report = text(&output.stdout);
    let lines = report.lines().filter(|line| line.contains("ocker"));
    assert_eq!(lines.count(), 1, "{report}");
}
