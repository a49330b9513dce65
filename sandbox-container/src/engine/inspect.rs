//! Inspects containers.

use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::ContainerInspectResponse;
use tokio::time::Instant;

use crate::error::{is_container_missing, is_parse_error};

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
