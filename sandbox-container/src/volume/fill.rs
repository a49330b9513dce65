//! Fills the volume, one process at a time.

use std::time::Duration;

use bollard::body_full;
use bollard::models::{ContainerCreateBody, HostConfig, Mount, MountType, MountVolumeOptions};
use bollard::query_parameters::UploadToContainerOptions;
use sandbox_core::{Error, ErrorKind, Result};
use tokio::time::Instant;

use super::{AGENT, AgentVolume, FOLDER, VolumeContent, archive, content_error};
use crate::Tier;
use crate::create::create;
use crate::engine::{Engine, inspect};
use crate::error::{Operation, engine_error, has_status};
use crate::labels;
use crate::removal::{self, ContainerGuard};

/// How long another process may take to fill the volume; it needs about 0.1 s.
const FILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Time between two attempts.
const POLL: Duration = Duration::from_millis(30);

/// Fills the volume through a container of `image` that is never started, and verifies its content.
///
/// The container's name is the lock: it is unique, so only one process writes at a time. If that
/// process dies, the next one removes the container after a timeout.
///
/// # Errors
///
/// The volume cannot be made to hold exactly the agent.
pub(crate) async fn fill(
    tier: Tier,
    engine: &Engine,
    volume: &AgentVolume,
    image: &str,
) -> Result<()> {
    let lock = acquire(tier, engine, volume, image).await?;
    let filled = fill_locked(tier, engine, volume, lock.container()).await;
    let removed = lock.remove(&engine.client).await;
    filled.and(removed)
}

async fn fill_locked(
    tier: Tier,
    engine: &Engine,
    volume: &AgentVolume,
    container: &str,
) -> Result<()> {
    match volume.inspect(tier, engine, container).await? {
        VolumeContent::Agent => return Ok(()),
        VolumeContent::Empty => {}
        VolumeContent::Other(why) => {
            tracing::warn!(
                %tier,
                volume = volume.name,
                why,
                "the agent's volume has unexpected content; filling it again"
            );
        }
    }
    let failed = |error| engine_error(tier, Operation::Volume, error);
    let archive = archive::build(&volume.files()).map_err(|error| failed(error.into()))?;
    let options = UploadToContainerOptions {
        path: FOLDER.to_owned(),
        ..Default::default()
    };
    let upload =
        engine
            .client
            .upload_to_container(container, Some(options), body_full(archive.into()));
    upload.await.map_err(failed)?;
    match volume.inspect(tier, engine, container).await? {
        VolumeContent::Agent => Ok(()),
        VolumeContent::Empty => Err(content_error(tier, volume, "it is empty after the upload")),
        VolumeContent::Other(why) => Err(content_error(tier, volume, &why)),
    }
}

async fn acquire(
    tier: Tier,
    engine: &Engine,
    volume: &AgentVolume,
    image: &str,
) -> Result<ContainerGuard> {
    let name = volume.name.replacen("agent", "fill", 1);
    let mut lock_owner: Option<(String, Instant)> = None;
    let deadline = Instant::now() + 3 * FILL_TIMEOUT;
    while Instant::now() < deadline {
        let body = helper_container(tier, volume, image, false);
        match create(tier, engine, Some(name.clone()), body).await {
            Ok(guard) => return Ok(guard),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let current = match inspect(&engine.client, &name).await {
            Ok(container) => container.id,
            Err(error) if has_status(&error, 404) => None,
            Err(error) => return Err(engine_error(tier, Operation::Volume, error)),
        };
        lock_owner = match (current, lock_owner) {
            (Some(id), Some((owner, since))) if id == owner => {
                if since.elapsed() > FILL_TIMEOUT {
                    removal::remove(tier, &engine.client, &id).await?;
                }
                Some((owner, since))
            }
            (current, _) => current.map(|id| (id, Instant::now())),
        };
        tokio::time::sleep(POLL).await;
    }
    let context = format!("container {name} has been filling the volume for too long");
    Err(Error::new(
        ErrorKind::SetupFailed,
        "provide the agent's volume",
        context,
    )
    .on(tier)
    .with_fix(format!("{} rm --force {name}", tier.family.command)))
}

/// A container for reading the volume. Never started.
pub(crate) fn reader_container(
    tier: Tier,
    volume: &AgentVolume,
    image: &str,
) -> ContainerCreateBody {
    helper_container(tier, volume, image, true)
}

fn helper_container(
    tier: Tier,
    volume: &AgentVolume,
    image: &str,
    read_only: bool,
) -> ContainerCreateBody {
    let mount = Mount {
        target: Some(FOLDER.to_owned()),
        source: Some(volume.name.clone()),
        typ: Some(MountType::VOLUME),
        read_only: Some(read_only),
        volume_options: Some(MountVolumeOptions {
            no_copy: Some(true),
            ..Default::default()
        }),
        ..Mount::default()
    };
    ContainerCreateBody {
        image: Some(image.to_owned()),
        // Podman gives uploaded files to the container's user, which an image may set.
        user: Some("0:0".to_owned()),
        entrypoint: Some(vec![AGENT.to_owned()]),
        labels: Some(labels::managed(tier)),
        host_config: Some(HostConfig {
            mounts: Some(vec![mount]),
            network_mode: Some("none".into()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}
