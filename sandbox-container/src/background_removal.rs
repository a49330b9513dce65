//! Removes containers in the background, and retries while an engine is unavailable.

use std::time::Duration;

use bollard::Docker;
use sandbox_core::Result;
use sandbox_host::{Background, Retries};
use tokio::time::Instant;

use crate::Tier;
use crate::claim::ContainerClaim;
use crate::detached::RecordGuard;
use crate::engine::{self, Endpoint};
use crate::error::{Operation, engine_error};
use crate::labels;
use crate::removal::{remove, remove_image_of};

/// How long to look for a container whose creation lost its response: engines create one within a
/// second.
const SETTLING_TIMEOUT: Duration = Duration::from_secs(5);

/// The first and the longest pause between two attempts.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// This process's removals.
pub(crate) static REMOVER: Background = Background::new("sandbox-remover");

/// A container to remove.
#[derive(Debug)]
struct RemovalTask {
    tier: Tier,
    endpoint: Endpoint,
    /// `None` if the engine never returned the id; its label has the claim's token.
    container: Option<String>,
    extras: CleanupExtras,
}

/// What is released or removed with a container.
#[derive(Debug, Default)]
pub(crate) struct CleanupExtras {
    /// The image to remove after it.
    pub image: Option<String>,
    /// Keeps this process's sweep away from it.
    pub claim: Option<ContainerClaim>,
    /// The sandbox's record. If this process ends before the container is gone, the record stays
    /// for the next client.
    pub record: Option<RecordGuard>,
}

/// Removes a container on the background thread. Needs no runtime, so a sandbox may be dropped
/// after its runtime has ended.
pub(crate) fn remove_soon(tier: Tier, endpoint: &Endpoint, container: &str, extras: CleanupExtras) {
    start(RemovalTask {
        tier,
        endpoint: endpoint.clone(),
        container: Some(container.to_owned()),
        extras,
    });
}

/// Removes a container whose creation lost its response, if it exists.
pub(crate) fn remove_claimed_soon(tier: Tier, endpoint: &Endpoint, claim: ContainerClaim) {
    start(RemovalTask {
        tier,
        endpoint: endpoint.clone(),
        container: None,
        extras: CleanupExtras {
            claim: Some(claim),
            ..CleanupExtras::default()
        },
    });
}

fn start(removal: RemovalTask) {
    let tier = removal.tier;
    if !REMOVER.start(run_with_retries(removal)) {
        // When the attached stream ends, the agent ends, and the engine removes the container.
        tracing::error!(%tier, "cannot start a thread to remove a container; its agent ends by itself");
    }
}

async fn run_with_retries(removal: RemovalTask) {
    let mut retries = Retries::new(RETRY_PAUSES);
    let mut removed = removal.attempt().await;
    while retries.wait_after(&removed).await {
        removed = removal.attempt().await;
    }
    if let Err(error) = removed {
        let (tier, container) = (removal.tier, removal.container.as_deref());
        let container = container.unwrap_or_default();
        tracing::error!(%tier, container, %error, "cannot remove a container or its image");
        if let Some(record) = removal.extras.record {
            record.persist();
        }
    }
}

impl RemovalTask {
    async fn attempt(&self) -> Result<()> {
        let client = engine::client(&self.endpoint)
            .map_err(|error| engine_error(self.tier, Operation::Remove, error))?;
        match (&self.container, &self.extras.claim) {
            (Some(container), _) => {
                remove(self.tier, &client, container).await?;
                match &self.extras.image {
                    Some(image) => remove_image_of(self.tier, &client, image, container).await,
                    None => Ok(()),
                }
            }
            (None, Some(claim)) => self.remove_claimed(&client, claim.token()).await,
            (None, None) => Ok(()),
        }
    }

    async fn remove_claimed(&self, client: &Docker, token: &str) -> Result<()> {
        let label = [format!("{}={token}", labels::TOKEN)];
        let deadline = Instant::now() + SETTLING_TIMEOUT;
        while Instant::now() < deadline {
            let address = self.endpoint.address();
            let containers = engine::list(self.tier, client, address, &label).await?;
            let mut is_found = false;
            for container in containers {
                remove(self.tier, client, &container.id).await?;
                is_found = true;
            }
            if is_found {
                return Ok(());
            }
            tokio::time::sleep(RETRY_PAUSES[1]).await;
        }
        Ok(())
    }
}
