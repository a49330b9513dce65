//! Lists and removes the engine's images.

use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

use bollard::models::{ImageInspect, ImageSummary};
use bollard::query_parameters::{ListImagesOptions, RemoveImageOptions};
use sandbox_core::{ByteSize, Error, ErrorKind, ImageInfo, ImageReference, Result};

use super::find::request_name;
use crate::engine::EngineConnection;
use crate::error::{Operation, engine_error, has_status};
use crate::{Tier, labels, removal};

/// Lists every image with a name, and unnamed ones that we built.
///
/// # Errors
///
/// The engine does not answer.
pub(crate) async fn images(tier: Tier, engine: &EngineConnection) -> Result<Vec<ImageInfo>> {
    let images = list(tier, engine, ListImagesOptions::default()).await?;
    let mut images = images.iter().map(of_summary).collect::<Vec<_>>();
    images.retain(|image| image.built || !image.names.is_empty());
    images.sort_by(|a, b| (&a.names, &a.id).cmp(&(&b.names, &b.id)));
    Ok(images)
}

/// Attempts to list images.
const ATTEMPTS: u32 = 100;

/// Time between two attempts: a busy engine takes seconds to remove several images.
const PAUSE: Duration = Duration::from_millis(100);

/// Lists images. Retries if an image was removed meanwhile: Podman then returns no list at all.
pub(super) async fn list(
    tier: Tier,
    engine: &EngineConnection,
    options: ListImagesOptions,
) -> Result<Vec<ImageSummary>> {
    let mut attempts = 1;
    loop {
        let error = match engine.client.list_images(Some(options.clone())).await {
            Ok(images) => return Ok(images),
            Err(error) => error,
        };
        if !is_concurrent_removal(&error.to_string()) || attempts == ATTEMPTS {
            return Err(engine_error(tier, Operation::ListImages, error));
        }
        attempts += 1;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether Podman reports an image that was removed while it listed all of them: an upstream bug,
/// <https://github.com/containers/podman/issues/24800>.
pub(super) fn is_concurrent_removal(message: &str) -> bool {
    ["image not known", "layer not known", "size is not known"]
        .iter()
        .any(|words| message.contains(words))
}

/// Removes an image, or only this name if the image has more.
///
/// # Errors
///
/// `ImageNotFound`, and `Io` if a container uses it.
pub(crate) async fn remove(
    tier: Tier,
    engine: &EngineConnection,
    reference: &ImageReference,
) -> Result<()> {
    let removed = engine
        .client
        .remove_image(&request_name(reference), None::<RemoveImageOptions>, None)
        .await;
    match removed {
        Ok(_) => Ok(()),
        Err(error) if has_status(&error, 404) => Err(Error::new(
            ErrorKind::ImageNotFound,
            "remove image",
            format!("the engine has no image {reference}"),
        )
        .on(tier)
        .with_fix(format!("name an image of `{} images`", tier.family.command))),
        Err(error) => Err(engine_error(tier, Operation::RemoveImage, error)),
    }
}

/// Age in seconds after which a temporary image is a leftover. No commit takes so long.
const TEMPORARY_IMAGE_AGE: i64 = 2 * 3600;

/// Removes temporary images of killed owners.
///
/// # Errors
///
/// The first image that could not be removed.
pub(crate) async fn sweep(tier: Tier, engine: &EngineConnection, now: i64) -> Result<()> {
    let filters = HashMap::from([
        ("dangling".to_owned(), vec!["true".to_owned()]),
        ("label".to_owned(), vec![labels::TEMPORARY.to_owned()]),
    ]);
    let options = ListImagesOptions {
        filters: Some(filters),
        ..ListImagesOptions::default()
    };
    let images = list(tier, engine, options).await?;
    let leftovers = images
        .iter()
        .filter(|image| now.saturating_sub(image.created) > TEMPORARY_IMAGE_AGE);
    for image in leftovers {
        removal::remove_image(tier, &engine.client, &image.id).await?;
    }
    Ok(())
}

/// Converts an inspected image.
pub(crate) fn info(image: &ImageInspect, is_new: bool) -> ImageInfo {
    let mut info = ImageInfo::new(image.id.clone().unwrap_or_default());
    info.size = bytes(image.size);
    info.names = full_names(image.repo_tags.iter().flatten());
    info.digests = full_names(image.repo_digests.iter().flatten());
    info.created = image
        .created
        .as_ref()
        .and_then(|created| humantime::parse_rfc3339(created).ok());
    let labels = image
        .config
        .as_ref()
        .and_then(|config| config.labels.as_ref());
    info.built = labels.is_some_and(|labels| labels.contains_key(labels::BUILT));
    info.brought = is_new;
    info
}

fn of_summary(image: &ImageSummary) -> ImageInfo {
    let mut info = ImageInfo::new(image.id.clone());
    info.size = bytes(Some(image.size));
    info.names = full_names(&image.repo_tags);
    info.digests = full_names(&image.repo_digests);
    let since = u64::try_from(image.created).ok().map(Duration::from_secs);
    info.created = since.and_then(|since| UNIX_EPOCH.checked_add(since));
    info.built = image.labels.contains_key(labels::BUILT);
    info
}

fn bytes(count: Option<i64>) -> Option<ByteSize> {
    let count = count.and_then(|count| u64::try_from(count).ok());
    count.map(ByteSize::bytes)
}

/// Full names, sorted. The engines' notation for "none" is skipped.
fn full_names<'a>(names: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut names = names
        .into_iter()
        .filter_map(|name| name.parse::<ImageReference>().ok())
        .map(|name| name.to_string())
        .collect::<Vec<_>>();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholder_names_are_skipped() {
        let image = ImageSummary {
            id: "sha256:1".into(),
            repo_tags: vec!["<none>:<none>".into(), "b:1".into(), "a/b:2".into()],
            repo_digests: vec!["<none>@<none>".into()],
            created: 5,
            size: 7,
            ..ImageSummary::default()
        };
        let info = of_summary(&image);
        assert_eq!(info.names, ["docker.io/a/b:2", "docker.io/library/b:1"]);
        assert!(info.digests.is_empty() && !info.built);
        assert_eq!(info.size, Some(ByteSize::bytes(7)));
        assert_eq!(info.created, Some(UNIX_EPOCH + Duration::from_secs(5)));
    }
}
