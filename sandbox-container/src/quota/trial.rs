//! The test of an engine's quotas.

use std::collections::HashMap;
use std::io;

use bollard::body_full;
use bollard::errors::Error as EngineError;
use bollard::models::HostConfig;
use bollard::query_parameters::{CreateImageOptions, UploadToContainerOptions};
use futures_util::StreamExt;
use sandbox_core::{Error, ErrorKind, Result};

use super::{LayerQuota, OPTION};
use crate::Tier;
use crate::create::{create, never_started};
use crate::engine::Engine;
use crate::error::{ErrorChain, Operation, engine_error};
use crate::{labels, removal};

/// Size of the tested layer in bytes.
const LAYER_SIZE: usize = 4 << 20;

/// Size of the image in bytes: above the layer's limit, so a quota that counts the image is full at
/// once.
const IMAGE_SIZE: usize = 6 << 20;

/// Size of a file that must fit, in bytes.
const FITTING_SIZE: usize = 512 << 10;

/// Size of a file that must not fit in addition, in bytes.
const EXCEEDING_SIZE: usize = 5 << 20;

/// Runs the test.
///
/// # Errors
///
/// The engine's errors.
pub(super) async fn run(tier: Tier, engine: &Engine) -> Result<LayerQuota> {
    let image = import(tier, engine).await?;
    let quota = with_image(tier, engine, &image).await;
    let removed = removal::remove_image(tier, &engine.client, &image).await;
    let quota = quota?;
    removed?;
    Ok(quota)
}

async fn with_image(tier: Tier, engine: &Engine, image: &str) -> Result<LayerQuota> {
    let storage = &engine.facts.storage;
    let host = HostConfig {
        storage_opt: Some(HashMap::from([(OPTION.to_owned(), LAYER_SIZE.to_string())])),
        ..HostConfig::default()
    };
    let body = never_started(tier, image, host);
    let container = match create(tier, engine, None, body).await {
        Ok(container) => container,
        Err(error) if error.kind() == ErrorKind::SandboxUnavailable => return Err(error),
        Err(error) if is_full_message(error.context()) => {
            return Ok(LayerQuota::Missing(shared_quota_reason(storage)));
        }
        Err(error) => {
            let message = error.context();
            return Ok(LayerQuota::Missing(format!(
                "the engine's storage ({storage}) takes no size: {message}"
            )));
        }
    };
    let outcomes = upload_both(tier, engine, container.container()).await;
    container.remove(&engine.client).await?;
    Ok(match outcomes? {
        (UploadOutcome::Complete, UploadOutcome::StorageFull) => LayerQuota::Works,
        (UploadOutcome::Complete, UploadOutcome::Complete) => LayerQuota::Missing(format!(
            "the engine's storage ({storage}) takes a size and does not keep to it"
        )),
        (UploadOutcome::StorageFull, _) => LayerQuota::Missing(shared_quota_reason(storage)),
    })
}

/// The reason if quotas count the files shared with the image.
fn shared_quota_reason(storage: &str) -> String {
    format!(
        "the quotas of the engine's storage ({storage}) count the image's files too, and btrfs suspends them whenever a container goes; simple quotas do neither (`btrfs quota enable --simple`)"
    )
}

/// The result of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UploadOutcome {
    Complete,
    /// The storage was full.
    StorageFull,
}

/// Uploads a file that fits, and then one that does not.
async fn upload_both(
    tier: Tier,
    engine: &Engine,
    container: &str,
) -> Result<(UploadOutcome, UploadOutcome)> {
    let fitting = upload(tier, engine, container, "little", FITTING_SIZE).await?;
    let exceeding = upload(tier, engine, container, "much", EXCEEDING_SIZE).await?;
    Ok((fitting, exceeding))
}

async fn upload(
    tier: Tier,
    engine: &Engine,
    container: &str,
    name: &str,
    size: usize,
) -> Result<UploadOutcome> {
    let failed = |error| engine_error(tier, Operation::Quota, error);
    let archive = archive(name, size).map_err(|error| failed(error.into()))?;
    let options = UploadToContainerOptions {
        path: "/".to_owned(),
        ..UploadToContainerOptions::default()
    };
    let body = body_full(archive.into());
    let uploaded = engine
        .client
        .upload_to_container(container, Some(options), body);
    match uploaded.await {
        Ok(()) => Ok(UploadOutcome::Complete),
        Err(error) if is_full(&error) => Ok(UploadOutcome::StorageFull),
        Err(error) => Err(failed(error)),
    }
}

/// Whether the error is about a quota or a full file system, which xfs project quotas report.
fn is_full(error: &EngineError) -> bool {
    is_full_message(&ErrorChain(error).to_string())
}

fn is_full_message(message: &str) -> bool {
    let message = message.to_lowercase();
    ["quota exceeded", "no space left"]
        .iter()
        .any(|words| message.contains(words))
}

/// An archive of one incompressible file.
fn archive(name: &str, size: usize) -> io::Result<Vec<u8>> {
    let mut content = vec![0; size];
    let mut hash = blake3::Hasher::new();
    hash.update(name.as_bytes())
        .finalize_xof()
        .fill(&mut content);
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(size as u64);
    header.set_mode(0o644);
    header.set_mtime(0);
    archive.append_data(&mut header, name, content.as_slice())?;
    archive.into_inner()
}

/// Imports the image and returns its id. If this process ends before it removes the image, a later
/// client finds it by its label.
async fn import(tier: Tier, engine: &Engine) -> Result<String> {
    let failed = |error| engine_error(tier, Operation::Quota, error);
    let archive = archive("image", IMAGE_SIZE).map_err(|error| failed(error.into()))?;
    let options = CreateImageOptions {
        from_src: Some("-".to_owned()),
        changes: vec![format!("LABEL {}=trial", labels::TEMPORARY)],
        ..CreateImageOptions::default()
    };
    let body = body_full(archive.into());
    let mut progress = std::pin::pin!(engine.client.create_image(Some(options), Some(body), None));
    let mut id = None;
    while let Some(line) = progress.next().await {
        let status = line.map_err(failed)?.status.unwrap_or_default();
        if is_id(&status) {
            id = Some(status);
        }
    }
    id.ok_or_else(|| {
        let context = "the engine imported an image and did not say its id";
        Error::new(ErrorKind::Io, Operation::Quota.phrase(), context).on(tier)
    })
}

fn is_id(status: &str) -> bool {
    let digits = status.strip_prefix("sha256:").unwrap_or(status);
    digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploaded_file_is_incompressible() {
        const {
            assert!(
                FITTING_SIZE < LAYER_SIZE && EXCEEDING_SIZE > LAYER_SIZE && IMAGE_SIZE > LAYER_SIZE
            )
        };
        let packed = archive("little", FITTING_SIZE).expect("an archive");
        let mut bytes = packed[512..512 + FITTING_SIZE].to_vec();
        bytes.sort_unstable();
        // All byte values are about equally frequent.
        let most = bytes.chunk_by(|a, b| a == b).map(<[u8]>::len).max();
        assert!(
            most.is_some_and(|most| most < FITTING_SIZE / 200),
            "{most:?}"
        );
    }

    #[test]
    fn full_storage_is_distinguished_from_other_errors() {
        let engine_error = |message: &str| EngineError::DockerResponseServerError {
            status_code: 500,
            message: message.to_owned(),
        };
        assert!(is_full(&engine_error("write /two: disk quota exceeded")));
        assert!(is_full(&engine_error(
            "write /two: No space left on device"
        )));
        assert!(!is_full(&engine_error("write /two: permission denied")));
    }

    #[test]
    fn image_id_is_recognized_with_and_without_prefix() {
        let digits = "0123456789abcdef".repeat(4);
        assert!(is_id(&digits) && is_id(&format!("sha256:{digits}")));
        assert!(!is_id("Importing") && !is_id(""));
    }
}
