use std::fs;
use std::path::{Path, PathBuf};

use sandbox_core::ErrorKind;

use super::{Candidates, Endpoint, Environment, candidates, parse};
use crate::config::DockerConfig;

fn look(config: &DockerConfig, environment: &Environment) -> Candidates {
    candidates("docker", config, environment).expect("candidates")
}

#[test]
fn a_named_engine_is_the_only_candidate() {
    let environment = Environment {
        docker_host: Some("tcp://10.0.0.1:2375/".into()),
        ..Environment::default()
    };
    let found = look(&DockerConfig::default(), &environment);
    assert_eq!(found.endpoints, [Endpoint::Tcp("10.0.0.1:2375".into())]);
    assert_eq!(found.named_by.as_deref(), Some("DOCKER_HOST"));

    let found = look(
        &DockerConfig::default().host("unix:///a.sock"),
        &environment,
    );
    assert_eq!(found.endpoints, [Endpoint::Unix("/a.sock".into())]);
}

#[test]
fn without_a_name_the_usual_sockets_are_tried_rootful_first() {
    let environment = Environment {
        runtime_dir: Some("/run/user/7".into()),
        ..Environment::default()
    };
    let found = look(&DockerConfig::default(), &environment);
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

#[test]
fn unusable_addresses_are_said_with_the_fix() {
    for host in [
        "ssh://host",
        "unix://relative",
        "tcp://",
        "/run/docker.sock",
        "",
    ] {
        assert!(parse(host).is_err(), "{host}");
        let config = DockerConfig::default().host(host);
        let error = candidates("docker", &config, &Environment::default()).expect_err(host);
        assert_eq!(error.kind(), ErrorKind::SandboxUnavailable);
        assert!(error.to_string().contains(&format!("{host:?}")), "{error}");
        assert!(
            error.fix().is_some_and(|fix| fix.contains("unix:///")),
            "{error}"
        );
    }
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
fn the_current_context_is_used_and_a_variable_goes_before_it() {
    let (_keep, home) = docker_folder(
        "one",
        &[("one", "unix:///1.sock"), ("two", "unix:///2.sock")],
    );
    let mut environment = Environment {
        home: Some(home),
        ..Environment::default()
    };
    let found = look(&DockerConfig::default(), &environment);
    assert_eq!(found.endpoints, [Endpoint::Unix("/1.sock".into())]);

    environment.docker_context = Some("two".into());
    let found = look(&DockerConfig::default(), &environment);
    assert_eq!(found.endpoints, [Endpoint::Unix("/2.sock".into())]);

    environment.docker_context = Some("default".into());
    assert_eq!(look(&DockerConfig::default(), &environment).named_by, None);
}

#[test]
fn a_missing_context_is_an_error_and_not_another_engine() {
    let (_keep, home) = docker_folder("gone", &[("one", "unix:///1.sock")]);
    let environment = Environment {
        home: Some(home),
        ..Environment::default()
    };
    let error = candidates("docker", &DockerConfig::default(), &environment).expect_err("missing");
    assert_eq!(error.kind(), ErrorKind::SandboxUnavailable);
    assert!(error.to_string().contains("\"gone\""), "{error}");
}
