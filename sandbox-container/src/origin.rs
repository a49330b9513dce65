//! Where a container's labels come from. One that somebody makes of an image has the image's; and an image that an engine's own command
//! made of a sandbox has the sandbox's, owner and all.

use sandbox_core::{Error, ErrorKind, Result};

use crate::Tier;
use crate::engine::{Engine, inspect};
use crate::error::{Operation, engine_error, has_status};
use crate::image;

/// Whether a container that has a sandbox's labels is none: its image brought them. Sandboxes are never made of such images. One that is
/// gone already is none either.
///
/// # Errors
///
/// When the engine does not answer, or has removed the image, so that nobody can tell.
pub(crate) async fn is_foreign(tier: Tier, engine: &Engine, container: &str) -> Result<bool> {
    let failed = |error| engine_error(tier, Operation::Inspect, error);
    let image = match inspect(&engine.client, container).await {
        Ok(found) => found.image.unwrap_or_default(),
        Err(error) if has_status(&error, 404) => return Ok(true),
        Err(error) => return Err(failed(error)),
    };
    match engine.client.inspect_image(&image).await {
        Ok(image) => Ok(image::sandbox_label(&image).is_some()),
        Err(error) if has_status(&error, 404) => {
            let context = format!(
                "container {container} has a sandbox's labels, and its image is gone, which may have brought them"
            );
            Err(Error::new(ErrorKind::Io, "remove container", context)
                .on(tier)
                .with_fix(format!(
                    "see whose it is, and remove it by `{} rm --force {container}`",
                    tier.family.command
                )))
        }
        Err(error) => Err(failed(error)),
    }
}
