use std::path::Path;

use sandbox_container::{Candidates, Endpoint};
use sandbox_core::ErrorKind;

use super::{PodmanEnvironment, find_candidates};

fn usual(environment: &PodmanEnvironment) -> Candidates {
    find_candidates("podman", environment).expect("candidates")
}

fn socket(path: &str) -> Endpoint {
    Endpoint::Unix(path.into())
}

/// A folder with one configuration of each format.
fn configured(toml: &str, json: &str) -> (tempfile::TempDir, PodmanEnvironment) {
    let folder = tempfile::tempdir().expect("temporary folder");
    let (first, second) = (folder.path().join("c.conf"), folder.path().join("c.json"));
    std::fs::write(&first, toml).expect("containers.conf");
    std::fs::write(&second, json).expect("podman-connections.json");
    let environment = PodmanEnvironment {
        configurations: vec![folder.path().join("not-there"), first],
        connections: Some(second),
        ..PodmanEnvironment::default()
    };
    (folder, environment)
}

const TOML: &str = r#"
[engine]
active_service = "one"
[engine.service_destinations.one]
uri = "unix:///1.sock"
[engine.service_destinations.two]
uri = "tcp://10.0.0.2:8888"
"#;

#[test]
fn variable_overrides_every_configuration() {
    let (_folder, mut environment) = configured(TOML, "{}");
    environment.host = Some("unix:///run/a.sock?secure=True".into());
    let found = usual(&environment);
    assert_eq!(found.endpoints, [socket("/run/a.sock")]);
    assert_eq!(found.named_by.as_deref(), Some("CONTAINER_HOST"));
}

#[test]
fn usual_sockets_are_tried_rootful_first() {
    let environment = PodmanEnvironment {
        runtime_dir: Some("/run/user/7".into()),
        ..PodmanEnvironment::default()
    };
    let found = usual(&environment);
    let run = Path::new("/run").canonicalize().expect("/run");
    let rootful = Endpoint::Unix(run.join("podman/podman.sock"));
    let rootless = Endpoint::Unix("/run/user/7/podman/podman.sock".into());
    assert_eq!(found.endpoints, [rootful, rootless]);
    assert_eq!(found.named_by, None);
}

#[test]
fn selected_connection_is_found_in_either_format() {
    let (_folder, mut environment) = configured(TOML, "{}");
    let found = usual(&environment);
    assert_eq!(found.endpoints, [socket("/1.sock")]);

    environment.connection = Some("two".into());
    let found = usual(&environment);
    assert_eq!(found.endpoints, [Endpoint::Tcp("10.0.0.2:8888".into())]);
    let by = found.named_by.expect("a name");
    assert!(by.contains("\"two\""), "{by}");

    let json =
        r#"{"Connection":{"Default":"three","Connections":{"three":{"URI":"unix:///3.sock"}}}}"#;
    let (_folder, environment) = configured(TOML, json);
    assert_eq!(usual(&environment).endpoints, [socket("/3.sock")]);
}

#[test]
fn unusable_connection_is_an_error() {
    let machine = "[engine]\nactive_service = \"m\"\n[engine.service_destinations.m]\nuri = \"ssh://core@localhost\"\n";
    for toml in ["[engine]\nactive_service = \"gone\"\n", machine] {
        let (_folder, environment) = configured(toml, "");
        let error = find_candidates("podman", &environment).expect_err(toml);
        assert_eq!(error.kind(), ErrorKind::SandboxUnavailable);
        assert!(error.fix().is_some(), "{error}");
    }
}
