//! Inspects containers.

use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::ContainerInspectResponse;
use tokio::time::Instant;

use crate::error::{is_no_container, is_unreadable};

/// How long an unknown container state is tolerated. Podman reports "stopped", unknown to Docker's
/// API, for about 0.5 s between the end of a container's process and its cleanup.
const PATIENCE: Duration = Duration::from_secs(3);

/// Time between two attempts.
const POLL: Duration = Duration::from_millis(20);

/// Inspects a container by id or name. Retries while its state is unknown.
///
/// # Errors
///
/// The engine's errors, including a response still unreadable after `UNKNOWN_STATE_TIMEOUT`.
pub(crate) async fn inspect(
    client: &Docker,
    container: &str,
) -> Result<ContainerInspectResponse, Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match client.inspect_container(container, None).await {
            Err(error) if is_unreadable(&error) && Instant::now() < deadline => {
                tokio::time::sleep(POLL).await;
            }
            answer => return answer.map_err(gone),
        }
    }
}

/// Maps Podman's error for a container being removed to status 404.
fn gone(error: Error) -> Error {
    let known = is_no_container(&error);
    match error {
        Error::DockerResponseServerError { message, .. } if known => {
            Error::DockerResponseServerError {
                status_code: 404,
                message,
            }
        }
        other => other,
    }
}
