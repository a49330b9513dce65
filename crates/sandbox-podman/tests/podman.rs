//! The shared tests of engines, on Podman.

#[path = "../../sandbox-container/tests/engine/mod.rs"]
mod suite;

/// What the tests have to know of the family.
mod family {
    pub use sandbox_podman::{PodmanBackend as Backend, PodmanConfig as Config};

    pub const TIER: &str = "podman";
    pub const UNSAFE_TIER: &str = "podman_unsafe";
    pub const COMMAND: &str = "podman";

    /// Whether the engine reads a container's seccomp profile from a file, which is then beside the agent.
    pub const PROFILE_IS_A_FILE: bool = true;

    /// What does not hold on this family, by the beginnings of the tests' names, and why.
    pub const NOT_HERE: &[(&str, &str)] = &[];

    /// The engine's own API, to look at what the backend has made.
    pub fn api() -> bollard::Docker {
        let socket = match std::env::var("CONTAINER_HOST") {
            Ok(host) => host,
            Err(_) => "unix:///run/podman/podman.sock".to_owned(),
        };
        bollard::Docker::connect_with_unix(&socket, 60, bollard::API_DEFAULT_VERSION)
            .expect("a client of the engine")
    }
}

fn main() -> std::process::ExitCode {
    suite::main()
}
