//! The backend's operations on images.

use async_trait::async_trait;
use sandbox_core::spi::Images;
use sandbox_core::{
    BuildRequest, ImageInfo, ImagePattern, ImageProgress, ImageReference, Plan, PullPolicy, Result,
};

use super::ContainerBackend;
use crate::EngineFamily;
use crate::engine::Engine;
use crate::image::{self, Build, Puller, RequestedImage};

impl<F: EngineFamily> ContainerBackend<F> {
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
}

#[async_trait]
impl<F: EngineFamily> Images for ContainerBackend<F> {
    async fn provide_image(&self, plan: &Plan, progress: &mut ImageProgress<'_>) -> Result<()> {
        let pull = plan.pull.unwrap_or(self.config.pull);
        if pull == PullPolicy::Never {
            return Ok(());
        }
        self.with_engine(async |engine| {
            let requested = self.requested_image(plan)?;
            let puller = self.puller(&engine);
            puller.provide(&requested, pull, progress).await.map(drop)
        })
        .await
    }

    async fn pull_image(
        &self,
        reference: &ImageReference,
        pull: PullPolicy,
        progress: &mut ImageProgress<'_>,
    ) -> Result<ImageInfo> {
        let requested = RequestedImage {
            reference: reference.clone(),
            original: None,
        };
        self.with_engine(async |engine| {
            let puller = self.puller(&engine);
            let (image, is_new) = puller.provide(&requested, pull, progress).await?;
            Ok(image::info(&image, is_new))
        })
        .await
    }

    async fn build_image(
        &self,
        request: &BuildRequest,
        allowed: Option<&[ImagePattern]>,
        progress: &mut ImageProgress<'_>,
    ) -> Result<ImageInfo> {
        self.with_engine(async |engine| {
            let build = Build {
                puller: self.puller(&engine),
                request,
                allowed,
            };
            build.run(progress).await
        })
        .await
    }

    async fn list_images(&self) -> Result<Vec<ImageInfo>> {
        self.with_engine(async |engine| image::images(self.tier, &engine).await)
            .await
    }

    async fn remove_image(&self, reference: &ImageReference) -> Result<()> {
        self.with_engine(async |engine| image::remove(self.tier, &engine, reference).await)
            .await
    }
}
