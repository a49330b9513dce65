//! Images that are removed together with their sandbox.

use std::path::Path;
use std::time::Duration;

use sandbox_core::{BuildRequest, ImageRetention};

use super::{Deviation, Maker};

/// Such an end removes the sandbox of a killed suite.
const LIFETIME: Duration = Duration::from_secs(60);

/// Builds an image twice. One is removed at the end of an attached sandbox, and one when another
/// client ends a detached sandbox. What was there before stays.
pub(super) async fn run(maker: &Maker, dockerfile: &Path) -> Deviation {
    let first = maker.changeable().await?;
    first.commit(&maker.tag).await?;
    first.kill().await?;
    for is_detached in [false, true] {
        let request = BuildRequest::new(dockerfile).tag(&maker.built);
        maker.client.build_image(&request, &mut |_| ()).await?;
        let spec = maker.spec().image(&maker.built);
        let mut spec = spec.image_retention(ImageRetention::Remove);
        spec.detached = is_detached;
        spec.lifetime = is_detached.then_some(LIFETIME);
        let sandbox = maker.client.create(&spec).await?;
        match is_detached {
            true => maker.other.get(&spec.name).await?.kill().await?,
            false => sandbox.kill().await?,
        }
        if maker.id(&maker.built).await?.is_some() {
            return Ok(Some(format!("it is left; detached: {is_detached}")));
        }
    }
    let is_kept = maker.id(&maker.tag).await?.is_some();
    Ok((!is_kept).then(|| "the image below it is gone, too".to_owned()))
}
