//! The backend's operations on images.

use sandbox_core::{
    BuildRequest, ImageInfo, ImagePattern, ImageProgress, ImageReference, Plan, PullPolicy, Result,
};

use super::ContainerBackend;
use crate::OfFamily;
use crate::engine::Engine;
use crate::image::{self, Build, Puller, RequestedImage};

impl<F: OfFamily> ContainerBackend<F> {
    /// The image that a plan requests.
    ///
    /// # Errors
    ///
    /// `PolicyExceeded` for an image that the policy does not allow.
    pub(super) fn requested_image<'a>(&'a self, plan: &'a Plan) -> Result<RequestedImage<'a>> {
        let original = plan.image.as_deref().unwrap_or(&self.config.default_image);
        let reference = original.parse()?;
        plan.check_image(&reference)
            .map_err(|error| error.on(self.tier))?;
        Ok(RequestedImage {
            reference,
            original: plan.images.is_none().then_some(original),
        })
    }

    fn puller<'a>(&'a self, engine: &'a Engine) -> Puller<'a> {
        Puller {
            tier: self.tier,
            engine,
            config: &self.config,
            pulled: &self.pulled,
        }
    }

    /// Pulls the image of a plan, if the pull policy asks for it.
    pub(super) async fn provide(
        &self,
        plan: &Plan,
        progress: &mut ImageProgress<'_>,
    ) -> Result<()> {
        let pull = plan.pull.unwrap_or(self.config.pull);
        if pull == PullPolicy::Never {
            return Ok(());
        }
        let engine = self.engine().await?;
        let provided = self
            .puller(&engine)
            .provide(&self.requested_image(plan)?, pull, progress)
            .await;
        self.forget_if_unavailable(provided).await.map(drop)
    }

    /// Pulls an image, or checks that it exists.
    pub(super) async fn pull(
        &self,
        reference: &ImageReference,
        pull: PullPolicy,
        progress: &mut ImageProgress<'_>,
    ) -> Result<ImageInfo> {
        let engine = self.engine().await?;
        let requested = RequestedImage {
            reference: reference.clone(),
            original: None,
        };
        let provided = self
            .puller(&engine)
            .provide(&requested, pull, progress)
            .await;
        let (image, is_new) = self.forget_if_unavailable(provided).await?;
        Ok(image::info(&image, is_new))
    }

    pub(super) async fn build_image_from(
        &self,
        request: &BuildRequest,
        allowed: Option<&[ImagePattern]>,
        progress: &mut ImageProgress<'_>,
    ) -> Result<ImageInfo> {
        let engine = self.engine().await?;
        let build = Build {
            puller: self.puller(&engine),
            request,
            allowed,
        };
        let built = build.run(progress).await;
        self.forget_if_unavailable(built).await
    }

    /// The images that the engine has.
    pub(super) async fn list_images(&self) -> Result<Vec<ImageInfo>> {
        let engine = self.engine().await?;
        let images = image::images(self.tier, &engine).await;
        self.forget_if_unavailable(images).await
    }

    /// Removes an image, or only this name if the image has more.
    pub(super) async fn remove_named_image(&self, reference: &ImageReference) -> Result<()> {
        let engine = self.engine().await?;
        let removed = image::remove(self.tier, &engine, reference).await;
        self.forget_if_unavailable(removed).await
    }
}
