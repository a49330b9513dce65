//! The engine, and sandboxes on it.

use std::future::Future;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{ContainerConfig, ContainerCreateBody, HostConfig};
use bollard::query_parameters::{CommitContainerOptions, RemoveContainerOptions};
use futures_util::StreamExt;
use sandbox_core::{CapabilityPolicy, unique_name};

use crate::family;

pub use crate::suite::sandboxes::*;

/// Waits for an answer to why tests cannot run, before there are tests.
pub fn reason(look: impl Future<Output = Option<String>>) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(look),
        Err(error) => Some(error.to_string()),
    }
}

/// Why the tests cannot run here; `None` where they can.
pub fn missing() -> Option<String> {
    reason(async {
        let client = client(CapabilityPolicy::new());
        let engine = client
            .diagnose()
            .await
            .into_iter()
            .find(|finding| finding.name == "engine");
        match engine {
            Some(engine) if engine.present => {}
            Some(engine) => return Some(engine.detail),
            None => return Some("the backend said nothing about an engine".into()),
        }
        for image in [BUSYBOX, BUSYBOX_USER, SCRATCH, PYTHON] {
            if let Err(error) = api().inspect_image(image).await {
                return Some(format!(
                    "image {image}: {error}; build it with `cargo xtask images`"
                ));
            }
        }
        None
    })
}

/// The engine's own API, to look at what the backend has made.
pub fn api() -> Docker {
    family::api()
}

/// Makes a container of an image without us, waits for its end, and gives its id.
pub async fn ran(image: &str, user: &str, command: &[&str]) -> String {
    let engine = api();
    let body = ContainerCreateBody {
        image: Some(image.into()),
        user: Some(user.into()),
        cmd: Some(command.iter().map(|word| (*word).to_owned()).collect()),
        host_config: Some(HostConfig {
            // An engine without root may have no other.
            network_mode: Some("none".into()),
            ..HostConfig::default()
        }),
        ..Default::default()
    };
    let id = engine
        .create_container(None, body)
        .await
        .expect("container")
        .id;
    engine.start_container(&id, None).await.expect("start");
    let end = engine.wait_container(&id, None).next().await;
    end.expect("an end").expect("success");
    id
}

/// An image made of another without us, by a script of root's and by instructions of a Dockerfile. Gives its name.
pub async fn image_of(base: &str, script: &str, instructions: &str) -> String {
    let engine = api();
    let container = ran(base, "0:0", &["sh", "-c", script]).await;
    let tag = unique_name("made");
    let commit = CommitContainerOptions {
        container: Some(container.clone()),
        repo: Some("sandbox-test/made".into()),
        tag: Some(tag.clone()),
        changes: Some(instructions.into()),
        ..CommitContainerOptions::default()
    };
    let committed = engine
        .commit_container(commit, ContainerConfig::default())
        .await;
    engine
        .remove_container(&container, None)
        .await
        .expect("the container is removed");
    committed.expect("commit");
    format!("sandbox-test/made:{tag}")
}

/// Whether the engine has a container of this name, in any state.
pub async fn exists(container: &str) -> bool {
    // What cannot be read is there: Podman has states that Docker's clients do not know.
    let found = api().inspect_container(container, None).await;
    !matches!(
        found,
        Err(Error::DockerResponseServerError {
            status_code: 404,
            ..
        })
    )
}

/// Removes a container, as somebody else does.
pub async fn remove(container: &str) {
    let options = RemoveContainerOptions {
        force: true,
        ..RemoveContainerOptions::default()
    };
    let removed = api().remove_container(container, Some(options)).await;
    removed.expect("removed by somebody else");
}

/// Waits until the engine has no such container, for at most `bound`.
pub async fn wait_gone(container: &str, bound: Duration) {
    let start = std::time::Instant::now();
    while exists(container).await {
        assert!(
            start.elapsed() < bound,
            "{container} is still there after {bound:?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
