//! What an image brings along that a sandbox must override.

use bollard::models::ImageInspect;
use sandbox_core::{Error, ErrorKind, Result};

use crate::Tier;
use crate::engine::Engine;
use crate::error::{Operation, engine_error};

/// What an image brings along.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ImageFacts {
    /// As the user wrote it.
    pub reference: String,
    /// By which name the engine is told of it: as the user wrote it, or its id, where names mean something else over Docker's API.
    pub name: String,
    /// Paths for which the engine would make writable volumes, sorted.
    pub volumes: Vec<String>,
}

impl ImageFacts {
    fn new(reference: &str, name: String, image: &ImageInspect) -> Self {
        let volumes = image
            .config
            .as_ref()
            .and_then(|config| config.volumes.clone());
        let mut volumes = volumes.unwrap_or_default();
        volumes.sort();
        Self {
            reference: reference.to_owned(),
            name,
            volumes,
        }
    }
}

/// Asks the engine for an image that it has. Nothing is ever pulled.
///
/// # Errors
///
/// `InvalidSpec` for what is no image reference, `ImageNotFound` with the fix.
pub(crate) async fn find(tier: Tier, engine: &Engine, reference: &str) -> Result<ImageFacts> {
    check_reference(tier, reference)?;
    let command = tier.family.command;
    let name = match (tier.family.native, &engine.address) {
        (Some(native), Some(address)) => {
            let found = native.image(address, reference).await.map_err(|why| {
                Error::unavailable(tier, why, format!("see whether `{command} info` works"))
            })?;
            found.unwrap_or_else(|| reference.to_owned())
        }
        _ => reference.to_owned(),
    };
    match engine.client.inspect_image(&name).await {
        Ok(image) => Ok(ImageFacts::new(reference, name, &image)),
        Err(error) => {
            let error = engine_error(tier, Operation::Inspect, error);
            Err(match error.kind() {
                ErrorKind::ImageNotFound => Error::new(
                    ErrorKind::ImageNotFound,
                    "create sandbox",
                    format!("the engine has no image {reference:?}, and images are never pulled"),
                )
                .on(tier)
                .with_fix(format!(
                    "{command} pull {reference}, or name an image of `{command} images`"
                )),
                _ => error,
            })
        }
    }
}

/// An image's reference becomes part of a request's path, so nothing may pass that could change the request.
fn check_reference(tier: Tier, reference: &str) -> Result<()> {
    let good_bytes = reference
        .bytes()
        .all(|c| c.is_ascii_alphanumeric() || b"._-/:@".contains(&c));
    let good_parts = reference.split('/').all(|part| {
        part.as_bytes()
            .first()
            .is_some_and(u8::is_ascii_alphanumeric)
            && !part.contains("..")
    });
    if good_bytes && good_parts && reference.len() <= 512 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidSpec,
        "create sandbox",
        format!("{reference:?} is not a reference of an image"),
    )
    .on(tier)
    .with_fix("write it like python:3.11-slim or registry.example.org/team/image@sha256:…"))
}

#[cfg(test)]
mod tests {
    use super::check_reference;
    use crate::family::samples::TIER;

    #[test]
    fn references_cannot_change_the_request() {
        for good in [
            "a",
            "python:3.11-slim",
            "host:5000/a/b@sha256:0123",
            "sha256:0123",
            "a_b.c",
        ] {
            assert!(check_reference(TIER, good).is_ok(), "{good}");
        }
        for bad in [
            "", "a?b", "a#b", "../x", "a/../b", "/a", "a//b", "a/", "a b", "a%2e", "-a", "ä",
        ] {
            assert!(check_reference(TIER, bad).is_err(), "{bad}");
        }
    }
}
