//! Removes containers.

use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::query_parameters::{RemoveContainerOptions, RemoveImageOptions};
use sandbox_core::{Error, ErrorKind, Result};

use crate::Tier;
use crate::background_removal::{CleanupExtras, remove_soon};
use crate::claim::ContainerClaim;
use crate::detached::RecordGuard;
use crate::engine::Endpoint;
use crate::error::{
    Operation, engine_error, has_status, is_busy, is_container_missing, is_parse_error,
    is_transient_state, message_contains,
};

/// Time limit for killing and removing a container. Without load it takes 50 to 100 ms.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(20);

/// Time for the engine to remove an ended container by itself before it is asked again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Time between two checks for a removed container.
const POLL: Duration = Duration::from_millis(5);

/// How long an engine may count a removed container as a user of its image.
const IMAGE_RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// The length of the ids in Docker's messages.
const SHORT_ID_LEN: usize = 12;

/// Kills a container, removes it with its volumes, and waits until it is gone. Succeeds if it is
/// already gone.
///
/// # Errors
///
/// The engine does not answer or cannot remove it.
pub(crate) async fn remove(tier: Tier, client: &Docker, container: &str) -> Result<()> {
    let options = RemoveContainerOptions {
        v: true,
        force: true,
        link: false,
    };
    let mut busy = None;
    let removal = async {
        loop {
            let removed = client.remove_container(container, Some(options.clone()));
            return match removed.await {
                Ok(()) => Ok(()),
                Err(error) if is_container_missing(&error) => Ok(()),
                Err(error) if is_transient_state(&error) => {
                    tokio::time::sleep(POLL).await;
                    continue;
                }
                // The container stays until a client asks again.
                Err(error) if is_busy(&error) => {
                    busy = Some(error);
                    tokio::time::sleep(RETRY_AFTER).await;
                    continue;
                }
                // The container ended and the engine is removing it. If that fails, the container
                // stays dead until a client asks again.
                Err(error) if has_status(&error, 409) => {
                    match tokio::time::timeout(RETRY_AFTER, wait_until_gone(client, container))
                        .await
                    {
                        Ok(gone) => gone,
                        Err(_) => continue,
                    }
                }
                Err(error) => Err(error),
            };
        }
    };
    let failure = |why: Error| {
        Error::new(ErrorKind::Io, "remove container", why.context().to_owned())
            .on(tier)
            .with_fix(format!("{} rm --force {container}", tier.family.command))
    };
    let ended = tokio::time::timeout(REMOVAL_TIMEOUT, removal).await;
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            let error = engine_error(tier, Operation::Remove, error);
            Err(if error.kind() == ErrorKind::SandboxUnavailable {
                error
            } else {
                failure(error)
            })
        }
        Err(_) => {
            let why = busy.map_or_else(String::new, |error| format!(": {error}"));
            let context = format!("{container} was not gone after {REMOVAL_TIMEOUT:?}{why}");
            Err(failure(Error::new(
                ErrorKind::Io,
                "remove container",
                context,
            )))
        }
    }
}

/// Waits until the engine has no such container.
pub(crate) async fn wait_until_gone(
    client: &Docker,
    container: &str,
) -> Result<(), bollard::errors::Error> {
    loop {
        match client.inspect_container(container, None).await {
            Err(error) if is_container_missing(&error) => return Ok(()),
            // During the removal an engine may report a state that bollard does not know.
            Err(error) if !is_parse_error(&error) => return Err(error),
            _ => tokio::time::sleep(POLL).await,
        }
    }
}

/// Removes an image. An image that others use stays.
pub(crate) async fn remove_image(tier: Tier, client: &Docker, image: &str) -> Result<()> {
    removed_image(tier, image, delete_image(client, image).await)
}

/// As [`remove_image`], after the removal of a container. An engine may still count a container as
/// a user of its image when it reports it as gone, so this retries while the engine names it.
pub(crate) async fn remove_image_of(
    tier: Tier,
    client: &Docker,
    image: &str,
    container: &str,
) -> Result<()> {
    let short_id = &container[..container.len().min(SHORT_ID_LEN)];
    let deadline = Instant::now() + IMAGE_RELEASE_TIMEOUT;
    loop {
        match delete_image(client, image).await {
            Err(error)
                if has_status(&error, 409)
                    && message_contains(&error, short_id)
                    && Instant::now() < deadline =>
            {
                tokio::time::sleep(POLL).await;
            }
            removed => return removed_image(tier, image, removed),
        }
    }
}

async fn delete_image(client: &Docker, image: &str) -> Result<(), bollard::errors::Error> {
    let removed = client.remove_image(image, None::<RemoveImageOptions>, None);
    removed.await.map(|_| ())
}

fn removed_image(
    tier: Tier,
    image: &str,
    removed: Result<(), bollard::errors::Error>,
) -> Result<()> {
    match removed {
        Err(error) if has_status(&error, 409) => {
            tracing::debug!(%tier, image, %error, "image not removed: it is in use");
            Ok(())
        }
        Err(error) if !has_status(&error, 404) => {
            Err(engine_error(tier, Operation::RemoveImage, error))
        }
        _ => Ok(()),
    }
}

/// Owns a container and removes it when dropped.
#[derive(Debug)]
pub(crate) struct ContainerGuard {
    tier: Tier,
    endpoint: Endpoint,
    container: Option<String>,
    claim: Option<ContainerClaim>,
    /// Removed after the container.
    image: Option<String>,
    /// The sandbox's record, kept until the container is gone.
    record: Option<RecordGuard>,
    /// The engine's warnings about the created container.
    warnings: Vec<String>,
}

impl ContainerGuard {
    pub(crate) fn new(
        tier: Tier,
        endpoint: &Endpoint,
        container: String,
        claim: ContainerClaim,
    ) -> Self {
        Self {
            tier,
            endpoint: endpoint.clone(),
            container: Some(container),
            claim: Some(claim),
            image: None,
            record: None,
            warnings: Vec::new(),
        }
    }

    /// Adds the engine's warnings about the created container.
    pub(crate) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }

    /// The engine's warnings about the created container.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Removes this image after the container.
    pub(crate) fn with_image(mut self, image: Option<String>) -> Self {
        self.image = image;
        self
    }

    /// Removes this record after the container.
    pub(crate) fn attach_record(&mut self, record: RecordGuard) {
        self.record = Some(record);
    }

    /// The container's id.
    pub(crate) fn container(&self) -> &str {
        self.container.as_deref().unwrap_or_default()
    }

    /// Detaches the container from this process. Returns the image that belongs to it.
    pub(crate) fn detach(mut self) -> Option<String> {
        if let Some(record) = self.record.take() {
            record.persist();
        }
        self.disarm()
    }

    /// Records that the container is gone. Returns the image that belongs to it.
    pub(crate) fn disarm(mut self) -> Option<String> {
        self.container = None;
        self.image.take()
    }

    /// Removes the container and waits until it is gone.
    pub(crate) async fn remove(mut self, client: &Docker) -> Result<()> {
        let result = remove(self.tier, client, self.container()).await;
        if result.is_ok() {
            self.container = None;
        }
        result
    }
}

impl Drop for ContainerGuard {
    fn drop(&mut self) {
        if let Some(container) = &self.container {
            let extras = CleanupExtras {
                image: self.image.take(),
                claim: self.claim.take(),
                record: self.record.take(),
            };
            remove_soon(self.tier, &self.endpoint, container, extras);
        }
    }
}
