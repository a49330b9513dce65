//! The shared tests of engines, on Podman.

#[path = "../../sandbox-container/tests/engine/mod.rs"]
mod suite;

/// What the tests have to know of the family.
mod family {
    use std::path::PathBuf;

    pub use sandbox_podman::{PodmanBackend as Backend, PodmanConfig as Config};

    pub use crate::suite::usual::*;

    pub const FAMILY: &sandbox_container::Family =
        <sandbox_podman::Podman as sandbox_container::OfFamily>::FAMILY;

    /// What does not hold on this family, by the beginnings of the tests' names, and why.
    pub const NOT_HERE: &[(&str, &str)] = &[(
        "runtime::a_sandbox_runs_on_the_chosen_one_and_says_so",
        ONE_RUNTIME,
    )];

    const ONE_RUNTIME: &str = "Podman's service takes no runtime from a request; that one is refused is tested in `hardening`";

    /// Where the engine looks for certificates of registries: Podman speaks TLS to those on the loopback, too.
    pub fn certificates() -> Option<PathBuf> {
        Some(match rustix::process::geteuid().is_root() {
            true => "/etc/containers/certs.d".into(),
            // Of whom the engine is: an engine of root's looks there as well as in /etc.
            false => home().join(".config/containers/certs.d"),
        })
    }

    /// The home folder of the engine's user, as the list of users has it: the variable may name another.
    fn home() -> PathBuf {
        let user = rustix::process::geteuid().as_raw().to_string();
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let home = users.lines().find_map(|line| {
            let fields = line.split(':').collect::<Vec<_>>();
            (fields.get(2) == Some(&user.as_str())).then(|| fields.get(5).copied())?
        });
        home.map_or_else(std::env::temp_dir, PathBuf::from)
    }

    /// The path of the engine's socket.
    pub fn socket() -> String {
        if let Ok(host) = std::env::var("CONTAINER_HOST") {
            return host.trim_start_matches("unix://").to_owned();
        }
        let folder = match rustix::process::geteuid().is_root() {
            true => "/run".to_owned(),
            false => std::env::var("XDG_RUNTIME_DIR").expect("a runtime folder"),
        };
        format!("{folder}/podman/podman.sock")
    }

    /// The engine's own API, to look at what the backend has made.
    pub fn api() -> bollard::Docker {
        bollard::Docker::connect_with_unix(&socket(), 60, bollard::API_DEFAULT_VERSION)
            .expect("a client of the engine")
    }
}

fn main() -> std::process::ExitCode {
    suite::main()
}
