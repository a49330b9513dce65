//! The shared tests of engines, on Docker.

#[path = "../../sandbox-container/tests/engine/mod.rs"]
mod suite;

/// What the tests have to know of the family.
mod family {
    pub use sandbox_docker::{DockerBackend as Backend, DockerConfig as Config};

    pub const TIER: &str = "docker";
    pub const UNSAFE_TIER: &str = "docker_unsafe";
    pub const COMMAND: &str = "docker";

    /// Whether the engine reads a container's seccomp profile from a file, which is then beside the agent.
    pub const PROFILE_IS_A_FILE: bool = false;

    /// What does not hold on this family, by the beginnings of the tests' names, and why.
    pub const NOT_HERE: &[(&str, &str)] = &[];

    /// The engine's own API, to look at what the backend has made.
    pub fn api() -> bollard::Docker {
        bollard::Docker::connect_with_defaults().expect("a client of the engine")
    }
}

fn main() -> std::process::ExitCode {
    suite::main()
}
