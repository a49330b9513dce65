//! The shared tests of engines, on Podman.

use std::path::PathBuf;
use std::sync::Arc;

use bollard::{API_DEFAULT_VERSION, Docker as Api};
use sandbox_container::EngineFamily;
use sandbox_podman::{Podman, PodmanBackend};
use sandbox_testing::engine::TestEngine;

/// Why no test chooses a runtime.
const NO_RUNTIME: &str = "Podman's service takes no runtime from a request; that one is refused is \
                          tested in `hardening`";

static ENGINE: TestEngine = TestEngine {
    family: <Podman as EngineFamily>::FAMILY,
    backend: |config| Arc::new(PodmanBackend::new(config)),
    backend_without_policy: |config| Arc::new(PodmanBackend::without_policy(config)),
    not_applicable: &[
        (
            "runtime::a_sandbox_uses_and_reports_the_configured_runtime",
            NO_RUNTIME,
        ),
        (
            "runtime::rules_for_hosts_are_enforced_on_a_kernel_of_its_own",
            NO_RUNTIME,
        ),
    ],
    socket,
    certificates: || Some(certificates()),
    api: || {
        Api::connect_with_unix(&socket(), 60, API_DEFAULT_VERSION).expect("a client of the engine")
    },
};

/// Podman uses TLS also for registries on loopback.
fn certificates() -> PathBuf {
    match rustix::process::geteuid().is_root() {
        true => "/etc/containers/certs.d".into(),
        false => home().join(".config/containers/certs.d"),
    }
}

/// The home folder of the engine's user, from `/etc/passwd`: `HOME` may name another.
fn home() -> PathBuf {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let home = users.lines().find_map(|line| {
        let fields = line.split(':').collect::<Vec<_>>();
        (fields.get(2) == Some(&uid.as_str())).then(|| fields.get(5).copied())?
    });
    home.map_or_else(std::env::temp_dir, PathBuf::from)
}

fn socket() -> String {
    if let Ok(host) = std::env::var("CONTAINER_HOST") {
        return host.trim_start_matches("unix://").to_owned();
    }
    let folder = match rustix::process::geteuid().is_root() {
        true => "/run".to_owned(),
        false => std::env::var("XDG_RUNTIME_DIR").expect("a runtime folder"),
    };
    format!("{folder}/podman/podman.sock")
}

fn main() -> std::process::ExitCode {
    sandbox_testing::engine::main(&ENGINE)
}
