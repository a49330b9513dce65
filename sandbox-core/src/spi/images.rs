//! Optional: images that sandboxes are created from.

use async_trait::async_trait;

use crate::{
    BuildRequest, ImageInfo, ImagePattern, ImageProgress, ImageReference, Plan, PullPolicy, Result,
};

/// Manages the images of an engine.
#[async_trait]
pub trait Images: Send + Sync {
    /// Pulls the image of a plan if the plan or the configuration asks for it.
    ///
    /// The client calls this before [`super::Backend::create`], which pulls nothing.
    ///
    /// # Behavior
    ///
    /// - Pulls only images that [`Plan::images`] allows.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::ImageNotFound`], [`crate::ErrorKind::ImageDenied`],
    /// [`crate::ErrorKind::RegistryUnreachable`], [`crate::ErrorKind::ImageTimedOut`] and
    /// [`crate::ErrorKind::StorageFull`].
    async fn provide_image(&self, plan: &Plan, progress: &mut ImageProgress<'_>) -> Result<()>;

    /// Pulls an image. With [`PullPolicy::Missing`], only if the engine does not have it.
    ///
    /// # Behavior
    ///
    /// - A reference with a digest gives exactly that image.
    ///
    /// # Errors
    ///
    /// As [`Images::provide_image`].
    async fn pull_image(
        &self,
        reference: &ImageReference,
        pull: PullPolicy,
        progress: &mut ImageProgress<'_>,
    ) -> Result<ImageInfo>;

    /// Builds an image.
    ///
    /// # Behavior
    ///
    /// - Without [`BuildRequest::network`], no instruction of the Dockerfile uses a network, and
    ///   the engine uses none for it.
    /// - If `allowed` is given, every image that the Dockerfile names must match it.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::ImageBuildFailed`] with the last lines of the failed step, and those
    /// of [`Images::provide_image`].
    async fn build_image(
        &self,
        request: &BuildRequest,
        allowed: Option<&[ImagePattern]>,
        progress: &mut ImageProgress<'_>,
    ) -> Result<ImageInfo>;

    /// The images of the engine, sorted by name. Images without a name are included only if this
    /// library built them.
    async fn list_images(&self) -> Result<Vec<ImageInfo>>;

    /// Removes an image, or only this name if the image has several.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::ImageNotFound`] if there is none, and an error if a container uses it.
    async fn remove_image(&self, reference: &ImageReference) -> Result<()>;
}
