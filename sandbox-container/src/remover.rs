//! Removing containers in the background, where nobody can wait, and for as long as an engine is away.

use std::time::Duration;

use bollard::Docker;
use sandbox_core::{ErrorKind, Result};
use sandbox_host::{Background, UnderWay};
use tokio::time::Instant;

use crate::Tier;
use crate::engine::{self, Endpoint};
use crate::error::{Operation, engine_error};
use crate::kept::Entry;
use crate::labels;
use crate::owner::Claim;
use crate::removal::{remove, try_remove_image};

/// How long an engine that does not answer is waited for. What is left then goes with the next client.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a container is looked for that an engine was asked for when it vanished: it makes one within a second.
const LATE: Duration = Duration::from_secs(5);

/// The pauses between two attempts, the first and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

static REMOVER: Background = Background::new("sandbox-remover");

/// Waits until every removal of this process is over, done or given up.
pub(crate) async fn settled() {
    REMOVER.settled().await;
}

/// Has [`settled`] wait for what goes on elsewhere, and may yet start a removal.
pub(crate) fn hold() -> UnderWay {
    REMOVER.hold()
}

/// Starts to undo something and returns. Needs no runtime. False where the system gives no thread.
pub(crate) fn undo(task: impl Future<Output = ()> + Send + 'static) -> bool {
    REMOVER.start(task)
}

/// What to remove.
#[derive(Debug)]
struct Removal {
    tier: Tier,
    endpoint: Endpoint,
    /// `None` where the engine never said which; its label has the claim's token.
    container: Option<String>,
    along: Along,
}

/// What goes with a container.
#[derive(Debug, Default)]
pub(crate) struct Along {
    /// The image that goes after it.
    pub image: Option<String>,
    /// Keeps the sweep of this process away from it.
    pub claim: Option<Claim>,
    /// What was written of its sandbox. Whoever ends this process before the container has gone leaves it to be found by that.
    pub record: Option<Entry>,
}

/// Starts to remove a container and returns. Needs no runtime: a thread of its own does it, for whoever drops a sandbox after
/// its runtime has ended.
pub(crate) fn remove_soon(tier: Tier, endpoint: &Endpoint, container: &str, along: Along) {
    send(Removal {
        tier,
        endpoint: endpoint.clone(),
        container: Some(container.to_owned()),
        along,
    });
}

/// The same for a container that the engine was asked for when it vanished: there may be none.
pub(crate) fn remove_claimed_soon(tier: Tier, endpoint: &Endpoint, claim: Claim) {
    send(Removal {
        tier,
        endpoint: endpoint.clone(),
        container: None,
        along: Along {
            claim: Some(claim),
            ..Along::default()
        },
    });
}

fn send(removal: Removal) {
    let tier = removal.tier;
    if !REMOVER.start(run(removal)) {
        // The end of the attached stream ends the agent, and the engine removes what has ended.
        tracing::error!(%tier, "no thread to remove a container; its agent ends by itself");
    }
}

async fn run(removal: Removal) {
    let tier = removal.tier;
    let deadline = Instant::now() + PATIENCE;
    let [mut pause, longest] = PAUSES;
    loop {
        match removal.attempt().await {
            Ok(()) => return,
            Err(error)
                if error.kind() == ErrorKind::SandboxUnavailable && Instant::now() < deadline =>
            {
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(longest);
            }
            Err(error) => {
                let container = removal.container.as_deref().unwrap_or_default();
                tracing::error!(%tier, container, %error, "a container, or its image, may be left");
                if let Some(record) = removal.along.record {
                    record.keep();
                }
                return;
            }
        }
    }
}

impl Removal {
    async fn attempt(&self) -> Result<()> {
        let client = engine::client(&self.endpoint)
            .map_err(|error| engine_error(self.tier, Operation::Remove, error))?;
        match (&self.container, &self.along.claim) {
            (Some(container), _) => {
                remove(self.tier, &client, container).await?;
                match &self.along.image {
                    Some(image) => self.remove_image(&client, image).await,
                    None => Ok(()),
                }
            }
            (None, Some(claim)) => self.remove_claimed(&client, claim.token()).await,
            (None, None) => Ok(()),
        }
    }

    /// Removes the image unless others use it. An engine that removes an ended container by itself may say that it is gone while its image
    /// is still in use.
    async fn remove_image(&self, client: &Docker, image: &str) -> Result<()> {
        let deadline = Instant::now() + LATE;
        while !try_remove_image(self.tier, client, image).await? && Instant::now() < deadline {
            tokio::time::sleep(PAUSES[0]).await;
        }
        Ok(())
    }

    async fn remove_claimed(&self, client: &Docker, token: &str) -> Result<()> {
        let label = [format!("{}={token}", labels::TOKEN)];
        let deadline = Instant::now() + LATE;
        while Instant::now() < deadline {
            let address = self.endpoint.address();
            let found = engine::list(self.tier, client, address, &label).await?;
            let mut any = false;
            for container in found {
                remove(self.tier, client, &container.id).await?;
                any = true;
            }
            if any {
                return Ok(());
            }
            tokio::time::sleep(PAUSES[1]).await;
        }
        Ok(())
    }
}
