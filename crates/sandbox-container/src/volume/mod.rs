//! The volume that carries the agent: named by the agent's hash, filled once per engine, compared before it is used.
//!
//! It is filled and read through containers that are created and never started, so that nothing of an image runs.

mod archive;
mod fill;
mod unused;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bollard::Docker;
use bollard::models::VolumeCreateRequest;
use bollard::query_parameters::DownloadFromContainerOptions;
use futures_util::StreamExt;
use sandbox_core::{Error, ErrorKind, Result};

pub(crate) use fill::{fill, reader};
pub(crate) use unused::remove_unused;

use crate::Tier;
use crate::engine::Engine;
use crate::error::{Operation, engine_error, has_status};
use crate::labels;

/// Where the volume appears in every container.
pub(crate) const FOLDER: &str = "/.sandbox-agent";

/// The agent's program in every container.
pub(crate) const AGENT: &str = "/.sandbox-agent/agent";

/// Where the socket of a detached sandbox's agent is: a folder that only the agent's user may enter.
pub(crate) const SOCKET_FOLDER: &str = "/.sandbox-socket";

/// The socket in it.
pub(crate) const SOCKET: &str = "/.sandbox-socket/agent";

/// What the names of agents' volumes begin with.
const PREFIX: &str = "sandbox-agent-";

/// A program and the volume that carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentVolume {
    /// Name of the volume.
    pub name: String,
    program: Arc<[u8]>,
}

impl AgentVolume {
    /// The volume of this program.
    pub(crate) fn new(program: Arc<[u8]>) -> Self {
        let hash = blake3::hash(&program).to_hex();
        Self {
            name: format!("{PREFIX}{}", &hash[..16]),
            program,
        }
    }

    /// The volume of the agent that is built in.
    pub(crate) fn ours() -> &'static Self {
        static OURS: OnceLock<AgentVolume> = OnceLock::new();
        OURS.get_or_init(|| Self::new(sandbox_agent::program().into()))
    }

    /// Whether there is no program at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.program.is_empty()
    }

    /// Makes sure that the volume exists; what it holds is another question.
    pub(crate) async fn create(&self, tier: Tier, engine: &Engine) -> Result<()> {
        let request = VolumeCreateRequest {
            name: Some(self.name.clone()),
            labels: Some(labels::ours(tier)),
            ..VolumeCreateRequest::default()
        };
        let created = engine.client.create_volume(request).await;
        created
            .map(drop)
            .map_err(|error| engine_error(tier, Operation::Volume, error))
    }

    /// Whether this process has seen the right content on this engine.
    pub(crate) fn is_verified(&self, engine: &Engine) -> bool {
        verified()
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&self.key(engine))
    }

    /// Remembers that the content is right.
    pub(crate) fn set_verified(&self, engine: &Engine) {
        verified()
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(self.key(engine));
    }

    /// The volume turned out to hold something else since it was verified.
    pub(crate) fn forget(&self, engine: &Engine) {
        verified()
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.key(engine));
    }

    fn key(&self, engine: &Engine) -> (String, String) {
        (engine.endpoint.to_string(), self.name.clone())
    }

    /// What is in the volume, seen through a container that has it mounted.
    pub(crate) async fn inspect(
        &self,
        tier: Tier,
        client: &Docker,
        container: &str,
    ) -> Result<Content> {
        let options = DownloadFromContainerOptions {
            path: FOLDER.to_owned(),
        };
        let mut stream = std::pin::pin!(client.download_from_container(container, Some(options)));
        // An archive of the agent alone has a few KiB beside it. Whatever is larger is not ours.
        let limit = self.program.len() + 64 * 1024;
        let mut bytes = Vec::new();
        while let Some(piece) = stream.next().await {
            let piece = match piece {
                Ok(piece) => piece,
                Err(error) if has_status(&error, 404) => return Ok(Content::Empty),
                Err(error) => return Err(engine_error(tier, Operation::Volume, error)),
            };
            bytes.extend_from_slice(&piece);
            if bytes.len() > limit {
                return Ok(Content::Other("more than the agent".into()));
            }
        }
        Ok(archive::compare(&bytes, &self.program))
    }
}

fn verified() -> &'static Mutex<HashSet<(String, String)>> {
    static VERIFIED: OnceLock<Mutex<HashSet<(String, String)>>> = OnceLock::new();
    VERIFIED.get_or_init(Mutex::default)
}

/// What a volume holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// The agent, byte for byte, and nothing else.
    Agent,
    /// Nothing yet.
    Empty,
    /// Something else: what is wrong with it.
    Other(String),
}

/// The volume cannot be made to hold the agent.
fn spoiled(tier: Tier, volume: &AgentVolume, why: &str) -> Error {
    let context = format!("volume {} does not hold the agent: {why}", volume.name);
    Error::new(
        ErrorKind::SetupFailed,
        "provide the agent's volume",
        context,
    )
    .on(tier)
    .with_fix(format!("{} volume rm {}", tier.family.command, volume.name))
}
