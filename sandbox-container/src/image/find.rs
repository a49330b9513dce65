//! Finds an image on the engine, and reads what sandboxes must override.

use bollard::models::ImageInspect;
use sandbox_core::{Error, ErrorKind, ImageReference, Result};

use crate::engine::{EngineConnection, inspect_image};
use crate::error::{Operation, engine_error, has_status};
use crate::{Tier, labels};

/// The image properties that a sandbox uses or overrides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ImageFacts {
    /// Its id. Containers use it, so that a moved name has no effect.
    pub id: String,
    /// Paths that the engine would mount writable volumes at, sorted.
    pub volumes: Vec<String>,
}

impl ImageFacts {
    /// Reads the engine's response.
    pub(crate) fn new(image: &ImageInspect) -> Self {
        let volumes = image
            .config
            .as_ref()
            .and_then(|config| config.volumes.clone());
        let mut volumes = volumes.unwrap_or_default();
        volumes.sort();
        Self {
            id: image.id.clone().unwrap_or_default(),
            volumes,
        }
    }
}

/// An image label that would make its containers look like sandboxes.
pub(crate) fn sandbox_label(image: &ImageInspect) -> Option<&String> {
    let config = image.config.as_ref();
    let names = config.and_then(|config| config.labels.as_ref());
    labels::inherited_reserved(names.into_iter().flat_map(|names| names.keys()))
}

/// Refuses an image whose labels would be inherited by its containers: sandboxes are found by
/// labels.
///
/// # Errors
///
/// `InvalidSpec` with the label.
pub(crate) fn check_labels(tier: Tier, image: &ImageInspect) -> Result<()> {
    let Some(label) = sandbox_label(image) else {
        return Ok(());
    };
    let id = image.id.as_deref().unwrap_or_default();
    let context = format!("image {id} has the label {label:?}, which says that it is a sandbox");
    Err(
        Error::new(ErrorKind::InvalidSpec, "create sandbox", context)
            .on(tier)
            .with_fix("use an image without such labels"),
    )
}

/// An image that a specification or build requests.
#[derive(Debug, Clone)]
pub(crate) struct RequestedImage<'a> {
    pub reference: ImageReference,
    /// The original text, if the engine's own command may resolve it differently. `None` under a
    /// policy's image list, which has only full references.
    pub original: Option<&'a str>,
}

/// Finds a requested image on the engine.
///
/// # Errors
///
/// `ImageNotFound` with the fix, also if the engine's image does not have the requested name.
pub(crate) async fn find(
    tier: Tier,
    engine: &EngineConnection,
    requested: &RequestedImage<'_>,
) -> Result<ImageInspect> {
    match inspect_requested(tier, engine, requested).await? {
        Some(image) => Ok(image),
        None => Err(not_found(tier, &requested.reference)),
    }
}

/// As [`find`]; `None` if the engine has no such image.
///
/// # Errors
///
/// As [`inspect_named`].
pub(crate) async fn inspect_requested(
    tier: Tier,
    engine: &EngineConnection,
    requested: &RequestedImage<'_>,
) -> Result<Option<ImageInspect>> {
    let image = inspect_named(tier, engine, &requested.reference).await;
    let (Ok(None), Some(original)) = (&image, requested.original) else {
        return image;
    };
    let (Some(native), Some(address)) = (tier.family.native, &engine.address) else {
        return image;
    };
    let image_id = native.image(address, original).await.map_err(|why| {
        let fix = format!("see whether `{} info` works", tier.family.command);
        Error::unavailable(tier, why, fix)
    })?;
    match image_id {
        Some(id) => inspect_named(tier, engine, &id.parse()?).await,
        None => image,
    }
}

/// Inspects the image with this full name or id; `None` if the engine has none.
///
/// # Errors
///
/// `ImageNotFound` if the engine's image does not have the requested name.
pub(crate) async fn inspect_named(
    tier: Tier,
    engine: &EngineConnection,
    reference: &ImageReference,
) -> Result<Option<ImageInspect>> {
    let name = request_name(reference);
    match inspect_image(&engine.client, &name).await {
        Ok(image) => match check_name(reference, &image) {
            Ok(()) => Ok(Some(image)),
            Err(why) => Err(Error::new(
                ErrorKind::ImageNotFound,
                "inspect image",
                format!("{reference}: {why}"),
            )
            .on(tier)
            .with_fix("pull the image, or name one that the engine has")),
        },
        Err(error) if has_status(&error, 404) => Ok(None),
        Err(error) => Err(engine_error(tier, Operation::Inspect, error)),
    }
}

/// The error for an image that the engine does not have and must not pull.
pub(crate) fn not_found(tier: Tier, reference: &ImageReference) -> Error {
    let command = tier.family.command;
    let fix = match reference.id() {
        Some(_) => format!("name an image of `{command} images`: an id cannot be pulled"),
        None => format!(
            "pull it (`--pull missing`, or `{command} pull {reference}`), or name an image of `{command} images`"
        ),
    };
    let context =
        format!("the engine has no image {reference}, and the pull policy forbids pulling it");
    Error::new(ErrorKind::ImageNotFound, "find image", context)
        .on(tier)
        .with_fix(fix)
}

/// The image's name in requests. A tag next to a digest is redundant, and some engines refuse both.
pub(crate) fn request_name(reference: &ImageReference) -> String {
    match (reference.name(), reference.digest()) {
        (Some(name), Some(digest)) => format!("{name}@{digest}"),
        _ => reference.to_string(),
    }
}

/// Checks that the engine returned the requested image: engines also take a name as an id prefix.
fn check_name(reference: &ImageReference, image: &ImageInspect) -> Result<(), String> {
    let id = image.id.as_deref().filter(|id| !id.is_empty());
    let id = id.ok_or("the engine gives an image without an id")?;
    let named = |names: &Option<Vec<String>>, same: &dyn Fn(&ImageReference) -> bool| {
        let names = names.iter().flatten();
        names
            .filter_map(|name| name.parse::<ImageReference>().ok())
            .any(|name| name.name() == reference.name() && same(&name))
    };
    if let Some(digits) = reference.id() {
        let known = id.strip_prefix("sha256:").unwrap_or(id);
        return match known.starts_with(digits) {
            true => Ok(()),
            false => Err(format!("the engine gives {id}")),
        };
    }
    if let Some(digest) = reference.digest() {
        return match named(&image.repo_digests, &|name| name.digest() == Some(digest)) {
            true => Ok(()),
            false => Err(format!("the engine gives {id}, which has another digest")),
        };
    }
    match named(&image.repo_tags, &|name| name.tag() == reference.tag()) {
        true => Ok(()),
        false => Err(format!("the engine gives {id}, which has other names")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn reference(text: &str) -> ImageReference {
        text.parse().expect(text)
    }

    fn image() -> ImageInspect {
        ImageInspect {
            id: Some(format!("sha256:{DIGITS}")),
            repo_tags: Some(vec!["python:3".into(), "localhost/mine:1".into()]),
            repo_digests: Some(vec![format!("python@sha256:{DIGITS}")]),
            ..ImageInspect::default()
        }
    }

    #[test]
    fn returned_image_must_have_the_requested_name() {
        for good in [
            "python:3".to_owned(),
            "docker.io/library/python:3".to_owned(),
            "localhost/mine:1".to_owned(),
            format!("python@sha256:{DIGITS}"),
            format!("python:other@sha256:{DIGITS}"),
            DIGITS.to_owned(),
            DIGITS[..12].to_owned(),
        ] {
            assert_eq!(check_name(&reference(&good), &image()), Ok(()), "{good}");
        }
        let other = DIGITS.replace('0', "1");
        for bad in [
            "python:4".to_owned(),
            "mine:1".to_owned(),
            "0123".to_owned(),
            format!("localhost/mine@sha256:{DIGITS}"),
            format!("python@sha256:{other}"),
            other.clone(),
        ] {
            assert!(check_name(&reference(&bad), &image()).is_err(), "{bad}");
        }
    }

    #[test]
    fn image_with_sandbox_labels_is_refused() {
        let labeled = |name: &str| ImageInspect {
            config: Some(bollard::models::ImageConfig {
                labels: Some([(name.to_owned(), "x".to_owned())].into()),
                ..Default::default()
            }),
            ..image()
        };
        let check = |name| check_labels(crate::family::samples::TIER, &labeled(name));
        assert!(check(labels::BUILT).is_ok() && check("sandbox-test.recipe").is_ok());
        let error = check(labels::TIER).expect_err("a sandbox's");
        assert_eq!(error.kind(), ErrorKind::InvalidSpec);
    }

    #[test]
    fn digest_is_requested_without_the_tag() {
        let pinned = reference(&format!("python:3@sha256:{DIGITS}"));
        assert_eq!(
            request_name(&pinned),
            format!("docker.io/library/python@sha256:{DIGITS}")
        );
        assert_eq!(request_name(&reference("a/b")), "docker.io/a/b:latest");
    }
}
