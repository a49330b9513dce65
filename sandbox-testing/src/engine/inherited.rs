//! Containers from an image that the engine's command has committed from a sandbox. They inherit a
//! sandbox's labels and are not sandboxes.

use std::time::Duration;

use bollard::models::{ContainerConfig, ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CommitContainerOptions, RemoveContainerOptions, RemoveImageOptions,
};
use sandbox_core::spi::unique_name;
use sandbox_core::{CapabilityPolicy, ErrorKind};

use super::{EngineTest, TestEngine};
use crate::contract::{TestBackend, TestResult, client_of, run};

pub const TESTS: &[EngineTest] = &[(
    "lifetime::containers_of_a_sandboxes_image_are_left_alone",
    left_alone,
)];

/// Commits a container as the engine's command does, and returns the image's ID.
async fn image_of(engine: &'static TestEngine, container: &str) -> String {
    let commit = CommitContainerOptions {
        container: Some(container.to_owned()),
        repo: Some("sandbox-test/inherited".into()),
        tag: Some(unique_name("tag")),
        pause: false,
        ..CommitContainerOptions::default()
    };
    let made = engine
        .api()
        .commit_container(commit, ContainerConfig::default())
        .await;
    made.expect("an image").id
}

/// Creates a foreign container that is never started, and returns its ID.
async fn container_of(engine: &'static TestEngine, image: &str) -> String {
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        entrypoint: Some(vec!["/bin/sleep".to_owned(), "300".to_owned()]),
        cmd: Some(Vec::new()),
        host_config: Some(HostConfig {
            network_mode: Some("none".into()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let made = engine.api().create_container(None, body).await;
    made.expect("a container").id
}

fn left_alone(engine: &'static TestEngine) -> TestResult {
    let state = tempfile::tempdir().map_err(|error| error.to_string())?;
    run(async {
        let backend = engine.backend(engine.config().state_folder(state.path().join("state")));
        let client = client_of(backend, CapabilityPolicy::new());
        let detached = engine
            .spec()
            .detached(true)
            .lifetime(Duration::from_secs(60));
        let sandbox = client.create(&detached).await?;
        let image = image_of(engine, &format!("sandbox-{}", sandbox.name())).await;
        let (still, running) = (
            container_of(engine, &image).await,
            container_of(engine, &image).await,
        );
        engine
            .api()
            .start_container(&running, None)
            .await
            .expect("started");
        let labels = engine.api().inspect_container(&still, None).await;
        let labels = labels.expect("container").config.and_then(|its| its.labels);
        let labels = labels.unwrap_or_default();
        assert!(labels.contains_key("sandbox.owner"), "{labels:?}");

        // The sandbox is found by its name. After its end, the other containers are not taken for
        // it.
        client.remove(sandbox.name()).await?;
        let gone = client.remove(sandbox.name()).await.expect_err("gone");
        assert_eq!(gone.kind(), ErrorKind::SandboxNotFound, "{gone}");
        // The container that was never started has the labels of an abandoned sandbox of this
        // process.
        let pruned = client.prune().await?;
        assert!(
            !pruned.contains(&sandbox.name().to_owned()),
            "there was nothing of it: {pruned:?}"
        );
        let left = (engine.exists(&still).await, engine.exists(&running).await);
        let options = RemoveContainerOptions {
            force: true,
            ..RemoveContainerOptions::default()
        };
        for container in [&still, &running] {
            // A container that is removed by mistake is missing below.
            let _ = engine
                .api()
                .remove_container(container, Some(options.clone()))
                .await;
        }
        let api = engine.api();
        let removed = api.remove_image(&image, None::<RemoveImageOptions>, None);
        removed.await.expect("image");
        assert_eq!(left, (true, true));
        Ok(())
    })
}
