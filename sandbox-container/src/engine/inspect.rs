//! Inspects containers and images.

use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{ContainerInspectResponse, ImageInspect};
use tokio::time::Instant;

use crate::error::{has_status, is_container_missing, is_parse_error};

/// How long an unknown container state is tolerated. Podman reports "stopped", unknown to Docker's
/// API, for about 0.5 s between the end of a container's process and its cleanup.
const UNKNOWN_STATE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Inspects a container by id or name. Retries while its state is unknown.
///
/// # Errors
///
/// The engine's errors, including a response still unreadable after `UNKNOWN_STATE_TIMEOUT`.
pub(crate) async fn inspect(
    client: &Docker,
    container: &str,
) -> Result<ContainerInspectResponse, Error> {
    let deadline = Instant::now() + UNKNOWN_STATE_TIMEOUT;
    loop {
        match client.inspect_container(container, None).await {
            Err(error) if is_parse_error(&error) && Instant::now() < deadline => {
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            response => return response.map_err(as_not_found),
        }
    }
}

/// How often an image is inspected while other images of the engine are removed.
const IMAGE_ATTEMPTS: u32 = 5;

/// Inspects an image by name or id. Repeats a request that failed because an image was removed
/// meanwhile.
///
/// # Errors
///
/// The engine's errors; of the last of `IMAGE_ATTEMPTS` if images vanished during each.
pub(crate) async fn inspect_image(client: &Docker, image: &str) -> Result<ImageInspect, Error> {
    let mut attempt = 1;
    loop {
        match client.inspect_image(image).await {
            Err(error) if is_image_vanished(&error) && attempt < IMAGE_ATTEMPTS => attempt += 1,
            response => return response,
        }
    }
}

/// Whether Podman listed an image and could not read it, because its name moved to another image or
/// an image was removed meanwhile. Podman reads names and images under separate locks (podman
/// #6510). It reads every image to find the parent of one, so any image's removal has this effect.
fn is_image_vanished(error: &Error) -> bool {
    has_status(error, 500) && error.to_string().contains("image not known")
}

/// Maps Podman's error for a container being removed to status 404.
fn as_not_found(error: Error) -> Error {
    let is_missing = is_container_missing(&error);
    match error {
        Error::DockerResponseServerError { message, .. } if is_missing => {
            Error::DockerResponseServerError {
                status_code: 404,
                message,
            }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_during_which_an_image_vanished_is_repeated() {
        let response = |status_code, message: &str| Error::DockerResponseServerError {
            status_code,
            message: message.into(),
        };
        let unreadable = r#"locating image with ID "6f80": image not known"#;
        assert!(is_image_vanished(&response(500, unreadable)));
        assert!(!is_image_vanished(&response(404, unreadable)));
        assert!(!is_image_vanished(&response(500, "no space left")));
    }
}
