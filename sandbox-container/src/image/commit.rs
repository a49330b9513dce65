//! Commits a sandbox's files to an image.
//!
//! The engine's commit includes the container's labels, entry point and variables, and cannot leave
//! them out. So the committed image gets no name. It is saved, given the configuration of the
//! sandbox's own image, loaded under the requested name, and removed.

use std::time::Duration;

use bollard::errors::Error as EngineError;
use bollard::models::{ContainerConfig, ImageConfig, ImageInspect};
use bollard::query_parameters::{CommitContainerOptions, ImportImageOptions};
use futures_util::StreamExt;
use sandbox_core::{Error, ErrorKind, ImageInfo, ImageReference, Result};

use super::find::inspect_named;
use super::repack::{CommittedImage, repack};
use super::{info, pipe};
use crate::engine::{EngineConnection, inspect, inspect_image};
use crate::error::{Operation, engine_error, is_container_missing};
use crate::{Tier, labels, removal};

/// Time limit of each step: the engine copies whole images.
const STEP_TIMEOUT: Duration = Duration::from_secs(600);

/// The image that a sandbox was created from.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceImage {
    pub id: String,
    names: Vec<String>,
    config: Option<ImageConfig>,
}

impl SourceImage {
    pub(crate) fn new(image: &ImageInspect) -> Self {
        let info = info(image, false);
        Self {
            id: info.id,
            names: info.names,
            config: image.config.clone(),
        }
    }
}

/// The image that a container was created from.
pub(crate) async fn source_of_container(
    tier: Tier,
    engine: &EngineConnection,
    container: &str,
) -> Result<SourceImage> {
    let failed = |error| engine_error(tier, Operation::Inspect, error);
    let inspected = inspect(&engine.client, container).await;
    let image = inspected.map_err(failed)?.image.ok_or_else(|| {
        let context = format!("the engine does not say which image container {container} is of");
        Error::new(ErrorKind::Io, "inspect container", context).on(tier)
    })?;
    let image = inspect_image(&engine.client, &image).await;
    image.map(|image| SourceImage::new(&image)).map_err(failed)
}

/// A sandbox to commit.
#[derive(Debug)]
pub(crate) struct Commit<'a> {
    pub tier: Tier,
    pub engine: &'a EngineConnection,
    pub container: &'a str,
    pub source: &'a SourceImage,
    /// The name of the new image.
    pub tag: &'a ImageReference,
}

impl Commit<'_> {
    /// Commits the sandbox.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` for a name that is taken; what the engine refuses.
    pub(crate) async fn run(&self) -> Result<ImageInfo> {
        let taken = |what: &str| {
            let context = format!("{}: {what}", self.tag);
            self.error(ErrorKind::AlreadyExists, context)
                .with_fix("commit to a name that no image has")
        };
        if self.source.names.contains(&self.tag.to_string()) {
            return Err(taken("the sandbox was made of this image"));
        }
        if inspect_named(self.tier, self.engine, self.tag)
            .await?
            .is_some()
        {
            return Err(taken("another image has this name"));
        }
        let committed = self.commit().await?;
        let loaded = self.rename(&committed).await;
        let removed = removal::remove_image(self.tier, &self.engine.client, &committed).await;
        loaded?;
        removed?;
        match inspect_named(self.tier, self.engine, self.tag).await? {
            Some(image) => Ok(info(&image, true)),
            None => {
                let context = format!("{} was loaded, but the engine does not have it", self.tag);
                Err(self.error(ErrorKind::Io, context))
            }
        }
    }

    /// Commits to an image without a name; returns its id.
    async fn commit(&self) -> Result<String> {
        let options = CommitContainerOptions {
            container: Some(self.container.to_owned()),
            // The agent must answer during the commit.
            pause: false,
            // Marks the image as a leftover if this process ends before it is removed.
            changes: Some(format!("LABEL {}=commit", labels::TEMPORARY)),
            ..CommitContainerOptions::default()
        };
        let client = self.engine.client.clone().with_timeout(STEP_TIMEOUT);
        match client
            .commit_container(options, ContainerConfig::default())
            .await
        {
            Ok(committed) => Ok(committed.id),
            Err(error) if is_container_missing(&error) => {
                let context = "the sandbox's container is gone".to_owned();
                Err(self.error(ErrorKind::SandboxEnded, context))
            }
            Err(error) => Err(self.refused(error)),
        }
    }

    /// Gives the committed image its name and configuration.
    async fn rename(&self, committed: &str) -> Result<()> {
        let config = serde_json::to_value(self.source.config.clone().unwrap_or_default());
        let config = config.map_err(|error| self.error(ErrorKind::Io, error.to_string()))?;
        let target = CommittedImage {
            name: self.tag.to_string(),
            config,
        };
        let client = self.engine.client.clone().with_timeout(STEP_TIMEOUT);
        let mut saved = pipe::reader(client.export_image(committed));
        let (mut writer, archive) = pipe::writer();
        let packing = tokio::task::spawn_blocking(move || {
            let packed = repack(&mut saved, &mut writer, &target);
            let failure = packed.as_ref().err().map(ToString::to_string);
            writer.finish(packed);
            failure
        });
        let options = ImportImageOptions {
            quiet: true,
            ..ImportImageOptions::default()
        };
        let mut loading = Box::pin(client.import_image_stream(options, archive, None));
        let loaded = async {
            while let Some(event) = loading.next().await {
                event?;
            }
            Ok(())
        };
        let loaded = tokio::time::timeout(STEP_TIMEOUT, loaded).await;
        drop(loading);
        // The engine only reports a broken request; this is the cause.
        if let Ok(Some(failure)) = packing.await {
            return Err(self.error(ErrorKind::Io, failure));
        }
        match loaded {
            Ok(loaded) => loaded.map_err(|error| self.refused(error)),
            Err(_) => {
                let context = format!("the image was not loaded after {STEP_TIMEOUT:?}");
                Err(self.error(ErrorKind::ImageTimedOut, context))
            }
        }
    }

    fn refused(&self, error: EngineError) -> Error {
        let message = error.to_string();
        let error = engine_error(self.tier, Operation::Commit, error);
        if message.contains("no space left on device") {
            return self.error(ErrorKind::StorageFull, error.context().to_owned());
        }
        // Rootless Podman needs these settings only for a commit.
        if message.contains("runroot must be set") {
            return error.with_fix(
                "set runroot and graphroot beside the driver in ~/.config/containers/storage.conf",
            );
        }
        error
    }

    fn error(&self, kind: ErrorKind, context: String) -> Error {
        Error::new(kind, "commit sandbox", context).on(self.tier)
    }
}
