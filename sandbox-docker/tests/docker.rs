//! The shared tests of engines, on Docker.

#[path = "../../sandbox-container/tests/engine/mod.rs"]
mod suite;

/// What the tests have to know of the family.
mod family {
    pub use sandbox_docker::{DockerBackend as Backend, DockerConfig as Config};

    pub use crate::suite::usual::*;

    pub const FAMILY: &sandbox_container::Family =
        <sandbox_docker::Docker as sandbox_container::OfFamily>::FAMILY;

    /// What does not hold on this family, by the beginnings of the tests' names, and why.
    pub const NOT_HERE: &[(&str, &str)] = &[];

    /// Where the engine looks for certificates of registries; `None` where it takes one on the loopback without TLS.
    pub fn certificates() -> Option<std::path::PathBuf> {
        None
    }

    /// The path of the engine's socket.
    pub fn socket() -> String {
        let host = std::env::var("DOCKER_HOST");
        let host = host.unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned());
        host.trim_start_matches("unix://").to_owned()
    }

    /// The engine's own API, to look at what the backend has made.
    pub fn api() -> bollard::Docker {
        bollard::Docker::connect_with_defaults().expect("a client of the engine")
    }
}

fn main() -> std::process::ExitCode {
    suite::main()
}
