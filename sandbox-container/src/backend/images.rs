//! The backend's operations on images.

use sandbox_core::{
    BuildRequest, ImageInfo, ImagePattern, ImageProgress, ImageReference, Plan, PullPolicy, Result,
};

use super::ContainerBackend;
use crate::OfFamily;
use crate::engine::Engine;
use crate::image::{self, Build, Puller, Wanted};

impl<F: OfFamily> ContainerBackend<F> {
    /// The image that a plan requests.
    ///
    /// # Errors
    ///
    /// `PolicyExceeded` for an image that the policy does not allow.
    pub(super) fn wanted<'a>(&'a self, plan: &'a Plan) -> Result<Wanted<'a>> {
        let written = plan.image.as_deref().unwrap_or(&self.config.default_image);
        let reference = written.parse()?;
        plan.check_image(&reference)
            .map_err(|error| error.on(self.tier))?;
        Ok(Wanted {
            reference,
            written: plan.images.is_none().then_some(written),
        })
    }

    fn puller<'a>(&'a self, engine: &'a Engine) -> Puller<'a> {
        Puller {
            tier: self.tier,
            engine,
            config: &self.config,
            brought: &self.brought,
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
            .provide(&self.wanted(plan)?, pull, progress)
            .await;
        self.noticing(provided).await.map(drop)
    }

    /// Pulls an image, or checks that it exists.
    pub(super) async fn pull(
        &self,
        reference: &ImageReference,
        pull: PullPolicy,
        progress: &mut ImageProgress<'_>,
    ) -> Result<ImageInfo> {
        let engine = self.engine().await?;
        let wanted = Wanted {
            reference: reference.clone(),
            written: None,
        };
        let provided = self.puller(&engine).provide(&wanted, pull, progress).await;
        let (image, brought) = self.noticing(provided).await?;
        Ok(image::info(&image, brought))
    }

    pub(super) async fn make(
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
        self.noticing(built).await
    }

    /// The images that the engine has.
    pub(super) async fn stock(&self) -> Result<Vec<ImageInfo>> {
        let engine = self.engine().await?;
        let images = image::images(self.tier, &engine).await;
        self.noticing(images).await
    }

    /// Removes an image, or only this name if the image has more.
    pub(super) async fn discard(&self, reference: &ImageReference) -> Result<()> {
        let engine = self.engine().await?;
        let removed = image::remove(self.tier, &engine, reference).await;
        self.noticing(removed).await
    }
}
