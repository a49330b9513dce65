//! Tells a sandbox's labels from inherited ones. A container inherits its image's labels, and an
//! image committed from a sandbox with the engine's own command has the sandbox's labels.

use sandbox_core::{Error, ErrorKind, Result};

use crate::Tier;
use crate::engine::{EngineConnection, inspect, inspect_image};
use crate::error::{Operation, engine_error, has_status};
use crate::image;

/// Whether a container with a sandbox's labels inherited them from its image. Then it is not a
/// sandbox, because sandboxes are never created from such images. Also true for a container that is
/// gone.
///
/// # Errors
///
/// The engine does not answer, or has removed the image, so the labels cannot be checked.
pub(crate) async fn has_inherited_labels(
    tier: Tier,
    engine: &EngineConnection,
    container: &str,
) -> Result<bool> {
    let failed = |error| engine_error(tier, Operation::Inspect, error);
    let image = match inspect(&engine.client, container).await {
        Ok(inspected) => inspected.image.unwrap_or_default(),
        Err(error) if has_status(&error, 404) => return Ok(true),
        Err(error) => return Err(failed(error)),
    };
    match inspect_image(&engine.client, &image).await {
        Ok(image) => Ok(image::sandbox_label(&image).is_some()),
        Err(error) if has_status(&error, 404) => {
            let context = format!(
                "container {container} has a sandbox's labels, but its image is gone, so they may be inherited"
            );
            Err(Error::new(ErrorKind::Io, "remove container", context)
                .on(tier)
                .with_fix(format!(
                    "check which program created it, then remove it with `{} rm --force {container}`",
                    tier.family.command
                )))
        }
        Err(error) => Err(failed(error)),
    }
}
