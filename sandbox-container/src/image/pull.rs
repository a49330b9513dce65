//! Pulls images from registries.

use std::collections::HashSet;
use std::time::Duration;

use bollard::errors::Error as EngineError;
use bollard::models::{CreateImageInfo, ImageInspect};
use bollard::query_parameters::{CreateImageOptions, ListImagesOptions};
use futures_util::StreamExt;
use sandbox_core::{
    Error, ErrorKind, ImageEvent, ImageProgress, ImageReference, PullPolicy, Result,
};
use tokio::time::Instant;

use super::PulledImages;
use super::classify::classify;
use super::credentials;
use super::find::{RequestedImage, inspect_requested, not_found};
use super::list::list;
use crate::Tier;
use crate::config::ContainerConfig;
use crate::engine::Engine;
use crate::error::{ErrorChain, Operation, engine_error};

/// Time limit between two progress events; engines send several per second.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Added to the engine client's timeout, so that ours expires first.
const CLIENT_GRACE: Duration = Duration::from_secs(10);

/// Ensures that images exist on the engine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Puller<'a> {
    pub tier: Tier,
    pub engine: &'a Engine,
    pub config: &'a ContainerConfig,
    pub pulled: &'a PulledImages,
}

impl Puller<'_> {
    /// Finds an image or pulls it first. Also returns whether the pull added it.
    ///
    /// # Errors
    ///
    /// See [`sandbox_core::spi::Images::provide_image`].
    pub(crate) async fn provide(
        &self,
        requested: &RequestedImage<'_>,
        pull: PullPolicy,
        progress: &mut ImageProgress<'_>,
    ) -> Result<(ImageInspect, bool)> {
        let reference = &requested.reference;
        let existing = inspect_requested(self.tier, self.engine, requested).await;
        // A pull may correct a name that resolves to another image.
        let existing = match existing {
            Err(error) if error.kind() == ErrorKind::ImageNotFound && pull != PullPolicy::Never => {
                None
            }
            result => result?,
        };
        match (pull, existing) {
            (PullPolicy::Never | PullPolicy::Missing, Some(image)) => return Ok((image, false)),
            // The content of an id cannot change.
            (PullPolicy::Always, Some(image)) if reference.id().is_some() => {
                return Ok((image, false));
            }
            (PullPolicy::Never, None) => return Err(not_found(self.tier, reference)),
            (_, None) if reference.id().is_some() => return Err(not_found(self.tier, reference)),
            _ => {}
        }
        let all = ListImagesOptions {
            all: true,
            ..ListImagesOptions::default()
        };
        let before = self.ids(&all).await?;
        self.pull(reference, progress).await?;
        let Some(image) = inspect_requested(self.tier, self.engine, requested).await? else {
            let context = format!("{reference} was pulled, but the engine does not have it");
            return Err(self.error(ErrorKind::ImageNotFound, context));
        };
        let id = image.id.clone().unwrap_or_default();
        let is_new = !before.contains(&id);
        if is_new {
            self.pulled.add(&id);
        }
        Ok((image, is_new))
    }

    /// The ids of the engine's images.
    pub(super) async fn ids(&self, options: &ListImagesOptions) -> Result<HashSet<String>> {
        let images = list(self.tier, self.engine, options.clone()).await?;
        Ok(images.into_iter().map(|image| image.id).collect())
    }

    async fn pull(
        &self,
        reference: &ImageReference,
        progress: &mut ImageProgress<'_>,
    ) -> Result<()> {
        let name = reference.name().unwrap_or_default().to_owned();
        let version = reference.digest().or(reference.tag());
        let options = CreateImageOptions {
            from_image: Some(name),
            tag: version.map(ToOwned::to_owned),
            ..CreateImageOptions::default()
        };
        let credentials = match self.config.registry_credentials {
            true => credentials::of_clients(reference),
            false => None,
        };
        let limit = self.config.image_timeout;
        // The response starts with the first layer.
        let client = self
            .engine
            .client
            .clone()
            .with_timeout(limit + CLIENT_GRACE);
        let mut events = Box::pin(client.create_image(Some(options), None, credentials));
        progress(&ImageEvent::Pulling {
            reference: reference.to_string(),
        });
        let deadline = Instant::now() + limit;
        loop {
            let until = deadline.min(Instant::now() + IDLE_TIMEOUT);
            // Dropping this future or the stream stops the engine's pull.
            match tokio::time::timeout_at(until, events.next()).await {
                Ok(None) => return Ok(()),
                Ok(Some(Ok(event))) => report_progress(event, progress),
                Ok(Some(Err(error))) => return Err(self.refused(reference, error)),
                Err(_) => return Err(self.timed_out(reference, Instant::now() >= deadline)),
            }
        }
    }

    fn error(&self, kind: ErrorKind, context: String) -> Error {
        Error::new(kind, "pull image", context).on(self.tier)
    }

    fn timed_out(&self, reference: &ImageReference, at_limit: bool) -> Error {
        let context = match at_limit {
            true => format!(
                "{reference} was not there after {:?}",
                self.config.image_timeout
            ),
            false => format!("{reference}: nothing came for {IDLE_TIMEOUT:?}"),
        };
        self.error(ErrorKind::ImageTimedOut, context)
            .with_fix("see whether the registry answers, or allow more time (image_timeout)")
    }

    fn refused(&self, reference: &ImageReference, error: EngineError) -> Error {
        let message = match &error {
            EngineError::DockerResponseServerError { message, .. } => message.trim().to_owned(),
            EngineError::DockerStreamError { error } => error.trim().to_owned(),
            EngineError::RequestTimeoutError => return self.timed_out(reference, true),
            _ => return engine_error(self.tier, Operation::Pull, error),
        };
        let command = self.tier.family.command;
        let registry = reference.name().and_then(|name| name.split('/').next());
        let registry = registry.unwrap_or_default();
        let Some(kind) = classify(&message) else {
            return self.error(
                ErrorKind::Io,
                format!("{reference}: {}", ErrorChain(&error)),
            );
        };
        let fix = match kind {
            ErrorKind::ImageNotFound => format!("see whether {registry} has it under this name"),
            ErrorKind::ImageDenied => {
                format!("`{command} login {registry}`, or see whether the name is right")
            }
            ErrorKind::StorageFull => {
                format!("make room on the engine's disk (`{command} system df`)")
            }
            _ => format!("see whether the engine's host reaches {registry}"),
        };
        self.error(kind, format!("{reference}: {message}"))
            .with_fix(fix)
    }
}

fn report_progress(event: CreateImageInfo, progress: &mut ImageProgress<'_>) {
    let (Some(id), Some(status)) = (event.id, event.status) else {
        return;
    };
    let bytes = |count: Option<i64>| count.and_then(|count| u64::try_from(count).ok());
    let detail = event.progress_detail.unwrap_or_default();
    progress(&ImageEvent::Layer {
        id,
        status,
        current: bytes(detail.current),
        total: bytes(detail.total),
    });
}
