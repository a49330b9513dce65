//! A container, as the engine describes it.

use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::ContainerInspectResponse;
use tokio::time::Instant;

use crate::error::{is_no_container, is_unreadable};

/// How long a container may be in a state that is not understood. Podman says "stopped", which Docker's API does not know, between the
/// end of a container's process and its cleaning up, some 0.5 s.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often it is asked again.
const POLL: Duration = Duration::from_millis(20);

/// Asks for a container by its id or name; once more while its state is a passing one that is not understood.
///
/// # Errors
///
/// The engine's, and that its answer is still not understood after `PATIENCE`.
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

/// What Podman says in its own words, with another status, of a container that goes at this moment.
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
