//! Containers that somebody makes of an image that the engine's own command made of a sandbox: they have a sandbox's labels, and are
//! none.

use std::time::Duration;

use bollard::models::{ContainerConfig, ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CommitContainerOptions, RemoveContainerOptions, RemoveImageOptions,
};
use libtest_mimic::Failed;
use sandbox_core::{CapabilityPolicy, ErrorKind, unique_name};

use crate::family::Backend;
use crate::suite::Test;
use crate::suite::engine::{api, client_of, config, exists, run, spec};

pub const TESTS: &[Test] = &[(
    "lifetime::containers_of_a_sandboxes_image_are_left_alone",
    left_alone,
)];

/// Has the engine make an image of a container, as its own command does; gives its id.
async fn image_of(container: &str) -> String {
    let commit = CommitContainerOptions {
        container: Some(container.to_owned()),
        repo: Some("sandbox-test/inherited".into()),
        tag: Some(unique_name("tag")),
        pause: false,
        ..CommitContainerOptions::default()
    };
    let made = api()
        .commit_container(commit, ContainerConfig::default())
        .await;
    made.expect("an image").id
}

/// A container of somebody else that has never been started; gives its id.
async fn container_of(image: &str) -> String {
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
    let made = api().create_container(None, body).await;
    made.expect("a container").id
}

fn left_alone() -> Result<(), Failed> {
    let state = tempfile::tempdir().map_err(|error| error.to_string())?;
    run(async {
        let backend = Backend::new(config().state_folder(state.path().join("state")));
        let client = client_of(backend, CapabilityPolicy::new());
        let detached = spec().detached(true).lifetime(Duration::from_secs(60));
        let sandbox = client.create(&detached).await?;
        let image = image_of(&format!("sandbox-{}", sandbox.name())).await;
        let (still, running) = (container_of(&image).await, container_of(&image).await);
        api()
            .start_container(&running, None)
            .await
            .expect("started");
        let labels = api().inspect_container(&still, None).await;
        let labels = labels.expect("container").config.and_then(|its| its.labels);
        let labels = labels.unwrap_or_default();
        assert!(labels.contains_key("sandbox.owner"), "{labels:?}");

        // By its name it is told from the others, and gone, it is not taken for one of them.
        client.remove(sandbox.name()).await?;
        let gone = client.remove(sandbox.name()).await.expect_err("gone");
        assert_eq!(gone.kind(), ErrorKind::SandboxNotFound, "{gone}");
        // The one that was never started has the labels of a sandbox of this process that nobody wants any more.
        let pruned = client.prune().await?;
        assert!(
            !pruned.contains(&sandbox.name().to_owned()),
            "there was nothing of it: {pruned:?}"
        );
        let left = (exists(&still).await, exists(&running).await);
        let options = RemoveContainerOptions {
            force: true,
            ..RemoveContainerOptions::default()
        };
        for container in [&still, &running] {
            // What was removed in error is missing below.
            let _ = api()
                .remove_container(container, Some(options.clone()))
                .await;
        }
        let engine = api();
        let removed = engine.remove_image(&image, None::<RemoveImageOptions>, None);
        removed.await.expect("image");
        assert_eq!(left, (true, true));
        Ok(())
    })
}
