//! The images of the client's backend.

use super::SandboxClient;
use crate::plan;
use crate::spi::{Images, unsupported};
use crate::{
    BuildRequest, Error, ErrorKind, ImageInfo, ImageProgress, ImageReference, PullPolicy, Result,
};

impl SandboxClient {
    /// Pulls an image. With [`PullPolicy::Missing`], only if the engine does not have it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PolicyExceeded`] if the policy does not allow the image,
    /// [`ErrorKind::InvalidSpec`] if `reference` is invalid, [`ErrorKind::ImageNotFound`],
    /// [`ErrorKind::ImageDenied`], [`ErrorKind::RegistryUnreachable`],
    /// [`ErrorKind::ImageTimedOut`] and [`ErrorKind::StorageFull`].
    pub async fn pull_image(
        &self,
        reference: &str,
        pull: PullPolicy,
        progress: &mut ImageProgress<'_>,
    ) -> Result<ImageInfo> {
        let reference = self.allowed_image(reference)?;
        let images = self.image_backend("pull image")?;
        images.pull_image(&reference, pull, progress).await
    }

    /// Builds an image from a Dockerfile. [`BuildRequest`] describes what runs where.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ImageBuildFailed`] with the last lines of the failed step,
    /// [`ErrorKind::PolicyExceeded`] for images and links that the policy does not allow,
    /// [`ErrorKind::AlreadyExists`] if another image has the name, and those of
    /// [`SandboxClient::pull_image`].
    pub async fn build_image(
        &self,
        request: &BuildRequest,
        progress: &mut ImageProgress<'_>,
    ) -> Result<ImageInfo> {
        if let Some(tag) = &request.tag {
            self.allowed_image(tag)?;
        }
        let allowed = self.policy.image_patterns()?;
        let follows = self.policy.follow_links;
        if request.follow_links && follows == Some(false) {
            let context = "follow_links: asked for true, the policy says false";
            let error = Error::new(ErrorKind::PolicyExceeded, "build image", context);
            return Err(error.on(self.tier()).with_fix("name the folder itself"));
        }
        let mut request = request.clone();
        request.follow_links |= follows.unwrap_or(false);
        self.image_backend("build image")?
            .build_image(&request, allowed.as_deref(), progress)
            .await
    }

    /// The images of the engine, sorted by name. Images without a name are included only if this
    /// library built them.
    ///
    /// # Errors
    ///
    /// Errors of the backend.
    pub async fn images(&self) -> Result<Vec<ImageInfo>> {
        self.image_backend("list images")?.list_images().await
    }

    /// Removes an image, or only this name if the image has several.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ImageNotFound`] if there is none, and an error if a container uses it.
    pub async fn remove_image(&self, reference: &str) -> Result<()> {
        let reference = reference.parse()?;
        let images = self.image_backend("remove image")?;
        images.remove_image(&reference).await
    }

    fn image_backend(&self, operation: &'static str) -> Result<&dyn Images> {
        let images = self.backend.images();
        images.ok_or_else(|| unsupported(operation, self.tier()))
    }

    /// Parses a reference to an image that the policy allows.
    fn allowed_image(&self, reference: &str) -> Result<ImageReference> {
        let reference = reference.parse()?;
        plan::check_image(self.policy.image_patterns()?.as_deref(), &reference)?;
        Ok(reference)
    }
}
