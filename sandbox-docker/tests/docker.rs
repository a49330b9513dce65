//! The shared tests of engines, on Docker.

use std::sync::Arc;

use bollard::Docker as Api;
use sandbox_container::OfFamily;
use sandbox_docker::{Docker, DockerBackend};
use sandbox_testing::engine::TestEngine;

static ENGINE: TestEngine = TestEngine {
    family: <Docker as OfFamily>::FAMILY,
    backend: |config| Arc::new(DockerBackend::new(config)),
    backend_without_policy: |config| Arc::new(DockerBackend::without_policy(config)),
    not_applicable: &[],
    socket,
    certificates: || None,
    api: || Api::connect_with_defaults().expect("a client of the engine"),
};

fn socket() -> String {
    let host = std::env::var("DOCKER_HOST");
    let host = host.unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned());
    host.trim_start_matches("unix://").to_owned()
}

fn main() -> std::process::ExitCode {
    sandbox_testing::engine::main(&ENGINE)
}
