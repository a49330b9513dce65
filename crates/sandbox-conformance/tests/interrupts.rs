//! The suite on an engine, ended in the middle: what it leaves.
//!
//! Without an engine of root's nothing is run, and that is said; `SANDBOX_REQUIRE` with the tier's name makes that a failure.

#![cfg(any(feature = "docker", feature = "podman"))]

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../../sandbox-container/tests/faults/listing.rs"]
mod listing;

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long anything of a killed owner may run.
const BOUND: Duration = Duration::from_secs(5);

struct Engine {
    tier: &'static str,
    socket: PathBuf,
}

impl Engine {
    /// The engine, unless there is none.
    fn find(tier: &'static str, variable: &str, usual: &str) -> Option<Self> {
        let named = std::env::var(variable).ok();
        let socket = named
            .as_deref()
            .map_or(usual, |host| host.trim_start_matches("unix://"));
        if let Err(error) = UnixStream::connect(socket) {
            let required = std::env::var("SANDBOX_REQUIRE").unwrap_or_default();
            let required = required.split(',').any(|name| name.trim() == tier);
            assert!(!required, "{tier} is required: {socket}: {error}");
            println!("NOT RUN: interrupts on {tier}: {socket}: {error}");
            return None;
        }
        Some(Self {
            tier,
            socket: socket.into(),
        })
    }

    fn suite(&self, reports: &Path, filters: &[&str]) -> Command {
        let program = std::env::var_os("CARGO_BIN_EXE_sandbox-conformance").map_or_else(
            || PathBuf::from(env!("CARGO_BIN_EXE_sandbox-conformance")),
            PathBuf::from,
        );
        let mut command = Command::new(program);
        command
            .args(["--tier", self.tier, "--skip-self-checks", "--reports"])
            .arg(reports)
            .args(filters.iter().flat_map(|filter| ["--filter", filter]))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    /// The containers that the process with this number made: their names and states.
    fn of(&self, pid: u32) -> Vec<(String, String)> {
        let is_its = |container: &Value| {
            let owner = container["Labels"]["sandbox.owner"].as_str();
            let number = owner.and_then(|owner| owner.split(':').nth(1));
            number == Some(&pid.to_string())
        };
        let listed = listing::list(&self.socket, "/containers/json?all=true");
        let listed = listed.as_array().expect("a list").iter();
        listed
            .filter(|container| is_its(container))
            .map(listing::described)
            .collect()
    }

    /// Waits until what the process has made is as wanted.
    fn wait(&self, pid: u32, bound: Duration, wanted: impl Fn(&[(String, String)]) -> bool) {
        let start = Instant::now();
        loop {
            let found = self.of(pid);
            if wanted(&found) {
                return;
            }
            assert!(start.elapsed() < bound, "{found:?} after {bound:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts the suite, waits until a container of this name runs, and sends it a signal.
    fn ended_by(&self, signal: &str, filters: &[&str], name: &str) -> (u32, ExitStatus) {
        let reports = tempfile::tempdir().expect("a folder");
        let mut suite = Suite(
            self.suite(reports.path(), filters)
                .spawn()
                .expect("a suite"),
        );
        let pid = suite.0.id();
        self.wait(pid, PATIENCE, |found| {
            found
                .iter()
                .any(|(names, state)| names.contains(name) && state == "running")
        });
        assert!(!folders(pid).is_empty(), "it has a folder");
        let sent = Command::new("kill")
            .args([signal, &pid.to_string()])
            .status();
        assert!(sent.expect("kill").success());
        let start = Instant::now();
        loop {
            if let Some(status) = suite.0.try_wait().expect("a child") {
                return (pid, status);
            }
            assert!(start.elapsed() < PATIENCE, "the suite does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Interrupted, it takes everything along before it ends, also what was to outlive its creator.
    fn interrupted(&self) {
        let (pid, status) = self.ended_by("-INT", &["detached", "timeout"], "-detached-");
        assert_eq!(status.code(), Some(130));
        assert_eq!(self.of(pid), []);
        assert_eq!(folders(pid), Vec::<PathBuf>::new());
    }

    /// Killed, what it left ends by itself and goes with the next one's start.
    fn killed(&self) {
        let (pid, status) = self.ended_by("-KILL", &["timeout", "output"], "sandbox-");
        assert_eq!(status.code(), None);
        self.wait(pid, BOUND, |found| {
            found.iter().all(|(_, state)| state != "running")
        });
        let reports = tempfile::tempdir().expect("a folder");
        let next = self.suite(reports.path(), &["exec::exit_codes"]).status();
        assert!(next.expect("the suite").success());
        assert_eq!(self.of(pid), []);
        assert_eq!(folders(pid), Vec::<PathBuf>::new());
    }
}

/// Dropping it kills it.
struct Suite(Child);

impl Drop for Suite {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The folders that the suite with this number has made.
fn folders(pid: u32) -> Vec<PathBuf> {
    let prefix = format!("sandbox-conformance-{pid}-");
    let entries = std::fs::read_dir("/var/tmp").expect("a folder").flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    ours.map(|entry| entry.path()).collect()
}

#[cfg(feature = "docker")]
fn docker() -> Option<Engine> {
    Engine::find("docker", "DOCKER_HOST", "/run/docker.sock")
}

#[cfg(feature = "podman")]
fn podman() -> Option<Engine> {
    Engine::find("podman", "CONTAINER_HOST", "/run/podman/podman.sock")
}

#[cfg(feature = "docker")]
#[test]
fn a_suite_on_docker_that_is_interrupted_leaves_nothing() {
    docker().iter().for_each(Engine::interrupted);
}

#[cfg(feature = "docker")]
#[test]
fn a_suite_on_docker_that_is_killed_leaves_nothing_to_the_next() {
    docker().iter().for_each(Engine::killed);
}

#[cfg(feature = "podman")]
#[test]
fn a_suite_on_podman_that_is_interrupted_leaves_nothing() {
    podman().iter().for_each(Engine::interrupted);
}

#[cfg(feature = "podman")]
#[test]
fn a_suite_on_podman_that_is_killed_leaves_nothing_to_the_next() {
    podman().iter().for_each(Engine::killed);
}
