use std::fs;
use std::path::{Path, PathBuf};

use sandbox_container::{Candidates, Endpoint};
use sandbox_core::ErrorKind;

use super::{DockerEnvironment, find_candidates};

fn usual(environment: &DockerEnvironment) -> Candidates {
    find_candidates("docker", environment).expect("candidates")
}

#[test]
fn named_engine_is_the_only_candidate() {
    let environment = DockerEnvironment {
        docker_host: Some("tcp://10.0.0.1:2375/".into()),
        ..DockerEnvironment::default()
    };
    let found = usual(&environment);
    assert_eq!(found.endpoints, [Endpoint::Tcp("10.0.0.1:2375".into())]);
    assert_eq!(found.named_by.as_deref(), Some("DOCKER_HOST"));
}

#[test]
fn usual_sockets_are_tried_rootful_first() {
    let environment = DockerEnvironment {
        runtime_dir: Some("/run/user/7".into()),
        ..DockerEnvironment::default()
    };
    let found = usual(&environment);
    let first = Path::new("/run")
        .canonicalize()
        .expect("/run")
        .join("docker.sock");
    assert_eq!(found.endpoints.first(), Some(&Endpoint::Unix(first)));
    assert!(
        found
            .endpoints
            .contains(&Endpoint::Unix("/run/user/7/docker.sock".into()))
    );
    assert_eq!(found.named_by, None);
}

fn docker_folder(current: &str, contexts: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().expect("temporary folder");
    let folder = home.path().join(".docker");
    for (index, (name, host)) in contexts.iter().enumerate() {
        let meta = folder.join(format!("contexts/meta/{index}"));
        fs::create_dir_all(&meta).expect("folder");
        let json = format!(r#"{{"Name":"{name}","Endpoints":{{"docker":{{"Host":"{host}"}}}}}}"#);
        fs::write(meta.join("meta.json"), json).expect("meta.json");
    }
    fs::create_dir_all(&folder).expect("folder");
    let config = format!(r#"{{"currentContext":"{current}"}}"#);
    fs::write(folder.join("config.json"), config).expect("config.json");
    let path = home.path().to_owned();
    (home, path)
}

#[test]
fn variable_overrides_the_current_context() {
    let (_keep, home) = docker_folder(
        "one",
        &[("one", "unix:///1.sock"), ("two", "unix:///2.sock")],
    );
    let mut environment = DockerEnvironment {
        home: Some(home),
        ..DockerEnvironment::default()
    };
    let found = usual(&environment);
    assert_eq!(found.endpoints, [Endpoint::Unix("/1.sock".into())]);

    environment.docker_context = Some("two".into());
    let found = usual(&environment);
    assert_eq!(found.endpoints, [Endpoint::Unix("/2.sock".into())]);

    environment.docker_context = Some("default".into());
    assert_eq!(usual(&environment).named_by, None);
}

#[test]
fn missing_context_is_an_error() {
    let (_keep, home) = docker_folder("gone", &[("one", "unix:///1.sock")]);
    let environment = DockerEnvironment {
        home: Some(home),
        ..DockerEnvironment::default()
    };
    let error = find_candidates("docker", &environment).expect_err("missing");
    assert_eq!(error.kind(), ErrorKind::SandboxUnavailable);
    assert!(error.to_string().contains("\"gone\""), "{error}");
}
