//! The end of containers: awaited, or in the background where nobody can wait.

use std::sync::OnceLock;
use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::{RemoveContainerOptions, RemoveImageOptions};
use sandbox_core::{Error, ErrorKind, Result};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::Tier;
use crate::engine::{self, Endpoint};
use crate::error::{Operation, engine_error, has_status};

/// How long the engine may take to kill and remove a container. Alone it takes 50 to 100 ms.
const BOUND: Duration = Duration::from_secs(20);

/// How often a removal that the engine does by itself is looked after.
const POLL: Duration = Duration::from_millis(5);

/// Kills a container, removes it with its volumes, and returns when it is gone. One that is gone already is fine.
///
/// # Errors
///
/// When the engine does not answer or cannot remove it.
pub(crate) async fn remove(tier: Tier, client: &Docker, container: &str) -> Result<()> {
    let options = RemoveContainerOptions {
        v: true,
        force: true,
        link: false,
    };
    let removal = async {
        match client.remove_container(container, Some(options)).await {
            Ok(()) => Ok(()),
            Err(error) if has_status(&error, 404) => Ok(()),
            // The container ended by itself and the engine is removing it at this moment.
            Err(error) if has_status(&error, 409) => wait_until_gone(client, container).await,
            Err(error) => Err(error),
        }
    };
    let left = |why: Error| {
        Error::new(ErrorKind::Io, "remove container", why.context().to_owned())
            .on(tier)
            .with_fix(format!("{} rm --force {container}", tier.family.command))
    };
    match tokio::time::timeout(BOUND, removal).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            let error = engine_error(tier, Operation::Remove, error);
            Err(if error.kind() == ErrorKind::SandboxUnavailable {
                error
            } else {
                left(error)
            })
        }
        Err(_) => {
            let context = format!("{container} was not gone after {BOUND:?}");
            Err(left(Error::new(ErrorKind::Io, "remove container", context)))
        }
    }
}

async fn wait_until_gone(client: &Docker, container: &str) -> Result<(), bollard::errors::Error> {
    loop {
        match client.inspect_container(container, None).await {
            Err(error) if has_status(&error, 404) => return Ok(()),
            Err(error) => return Err(error),
            Ok(_) => tokio::time::sleep(POLL).await,
        }
    }
}

/// A container to remove in the background.
#[derive(Debug)]
struct Removal {
    tier: Tier,
    endpoint: Endpoint,
    container: String,
    image: Option<String>,
}

/// Removes an image that came for a container which is gone. One that others use stays.
pub(crate) async fn remove_image(tier: Tier, client: &Docker, image: &str) -> Result<()> {
    let removed = client
        .remove_image(image, None::<RemoveImageOptions>, None)
        .await;
    match removed {
        Ok(_) => Ok(()),
        Err(error) if has_status(&error, 404) => Ok(()),
        Err(error) if has_status(&error, 409) => {
            tracing::debug!(%tier, image, %error, "an image that is used by others stays");
            Ok(())
        }
        Err(error) => Err(engine_error(tier, Operation::RemoveImage, error)),
    }
}

/// Starts to remove a container and returns. Needs no runtime: a thread of its own does it, for whoever drops a sandbox after
/// its runtime has ended.
pub(crate) fn remove_soon(tier: Tier, endpoint: &Endpoint, container: &str, image: Option<&str>) {
    static REMOVER: OnceLock<Option<UnboundedSender<Removal>>> = OnceLock::new();
    let removal = Removal {
        tier,
        endpoint: endpoint.clone(),
        container: container.to_owned(),
        image: image.map(ToOwned::to_owned),
    };
    let sent = REMOVER
        .get_or_init(start_remover)
        .as_ref()
        .map(|queue| queue.send(removal).is_ok());
    if sent != Some(true) {
        // The end of the attached stream ends the agent, and the engine removes what has ended.
        tracing::error!(
            %tier,
            container,
            "no thread to remove a container; its agent ends by itself"
        );
    }
}

fn start_remover() -> Option<UnboundedSender<Removal>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime
        .inspect_err(|error| tracing::error!(%error, "no runtime to remove containers with"))
        .ok()?;
    let (queue, mut removals) = unbounded_channel::<Removal>();
    std::thread::Builder::new()
        .name("sandbox-remover".into())
        .spawn(move || {
            runtime.block_on(async {
                while let Some(removal) = removals.recv().await {
                    tokio::spawn(run(removal));
                }
            });
        })
        .inspect_err(|error| tracing::error!(%error, "no thread to remove containers with"))
        .ok()?;
    Some(queue)
}

async fn run(
    Removal {
        tier,
        endpoint,
        container,
        image,
    }: Removal,
) {
    let removed = match engine::client(&endpoint) {
        Ok(client) => {
            let removed = remove(tier, &client, &container).await;
            match (&removed, image) {
                (Ok(()), Some(image)) => remove_image(tier, &client, &image).await,
                _ => removed,
            }
        }
        Err(error) => Err(engine_error(tier, Operation::Remove, error)),
    };
    if let Err(error) = removed {
        tracing::error!(%tier, container, %error, "a container, or its image, may be left");
    }
}

/// Owns a container: removes it when dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    tier: Tier,
    endpoint: Endpoint,
    container: Option<String>,
    /// What is removed after the container.
    image: Option<String>,
}

impl Guard {
    pub(crate) fn new(tier: Tier, endpoint: &Endpoint, container: String) -> Self {
        Self {
            tier,
            endpoint: endpoint.clone(),
            container: Some(container),
            image: None,
        }
    }

    /// Has this image removed with the container.
    pub(crate) fn with_image(mut self, image: Option<String>) -> Self {
        self.image = image;
        self
    }

    /// The container's id.
    pub(crate) fn container(&self) -> &str {
        self.container.as_deref().unwrap_or_default()
    }

    /// The container is gone; gives the image that is to go as well.
    pub(crate) fn release(mut self) -> Option<String> {
        self.container = None;
        self.image.take()
    }

    /// Removes the container and waits for it.
    pub(crate) async fn remove(mut self, client: &Docker) -> Result<()> {
        let result = remove(self.tier, client, self.container()).await;
        if result.is_ok() {
            self.container = None;
        }
        result
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(container) = &self.container {
            remove_soon(self.tier, &self.endpoint, container, self.image.as_deref());
        }
    }
}
