//! The volume that carries the agent: named by the agent's hash, filled once per engine, compared before it is used.
//!
//! It is filled and read through containers that are created and never started, so that nothing of an image runs.

mod archive;
mod fill;
mod profile;
mod unused;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bollard::models::VolumeCreateRequest;
use bollard::query_parameters::DownloadFromContainerOptions;
use futures_util::StreamExt;
use sandbox_core::{Error, ErrorKind, Result};

pub(crate) use fill::{fill, reader};
pub(crate) use unused::remove_unused;

use crate::engine::Engine;
use crate::error::{Causes, Operation, engine_error, has_status};
use crate::labels;
use crate::{ProfileForm, Tier};
use archive::Carried;

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

/// What an engine says when a container needs a file of the volume that is not in it.
const FILES: [&str; 2] = [AGENT, profile::FILE];

/// Permission bits of the agent: everyone may execute it.
const AGENT_MODE: u32 = 0o555;

/// Permission bits of the seccomp profile.
const PROFILE_MODE: u32 = 0o444;

/// A program and the volume that carries it, with the program's seccomp profile where the engine reads that from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentVolume {
    /// Name of the volume.
    pub name: String,
    program: Arc<[u8]>,
    profile: Option<&'static str>,
    form: ProfileForm,
}

impl AgentVolume {
    /// The volume of this program.
    pub(crate) fn new(program: Arc<[u8]>, form: ProfileForm) -> Self {
        let mut volume = Self {
            name: String::new(),
            profile: profile::of_program(&program),
            program,
            form,
        };
        let mut hash = blake3::Hasher::new();
        for file in volume.files() {
            hash.update(file.content);
        }
        volume.name = format!("{PREFIX}{}", &hash.finalize().to_hex()[..16]);
        volume
    }

    /// The volume of the agent that is built in.
    pub(crate) fn ours(form: ProfileForm) -> Self {
        static OURS: OnceLock<[AgentVolume; 2]> = OnceLock::new();
        let ours = OURS.get_or_init(|| {
            let program: Arc<[u8]> = sandbox_agent::program().into();
            [ProfileForm::Text, ProfileForm::File].map(|form| Self::new(program.clone(), form))
        });
        ours[usize::from(form == ProfileForm::File)].clone()
    }

    fn files(&self) -> Vec<Carried<'_>> {
        let agent = Carried {
            name: "agent",
            mode: AGENT_MODE,
            content: &self.program,
        };
        let profile = self.profile.filter(|_| self.form == ProfileForm::File);
        let profile = profile.map(|text| Carried {
            name: profile::FILE,
            mode: PROFILE_MODE,
            content: text.as_bytes(),
        });
        [agent].into_iter().chain(profile).collect()
    }

    /// The program's seccomp profile as the engine takes it: its text, or the name of its file on the engine's host. `None` where there
    /// is none for the program's machine.
    ///
    /// # Errors
    ///
    /// When the engine cannot make the volume, or does not say where it is.
    pub(crate) async fn profile(&self, tier: Tier, engine: &Engine) -> Result<Option<String>> {
        let Some(text) = self.profile else {
            return Ok(None);
        };
        let folder = match self.form {
            ProfileForm::Text => return Ok(Some(text.to_owned())),
            ProfileForm::File => self.folder(engine),
        };
        let folder = match folder {
            Some(folder) => folder,
            None => self.create(tier, engine).await?,
        };
        Ok(Some(format!("{folder}/{}", profile::FILE)))
    }

    /// Whether the engine refuses a container because a file of the volume is not there: somebody removed the volume since this
    /// process has verified it, and the engine made an empty one.
    pub(crate) fn is_missed_in(error: &Error) -> bool {
        FILES.iter().any(|file| error.context().contains(file))
    }

    /// The agent's program.
    pub(crate) fn program(&self) -> &[u8] {
        &self.program
    }

    /// Whether there is no program at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.program.is_empty()
    }

    /// Makes sure that the volume exists; what it holds is another question. Gives its folder on the engine's host.
    pub(crate) async fn create(&self, tier: Tier, engine: &Engine) -> Result<String> {
        let request = VolumeCreateRequest {
            name: Some(self.name.clone()),
            labels: Some(labels::ours(tier)),
            ..VolumeCreateRequest::default()
        };
        let created = match engine.client.create_volume(request).await {
            // Podman looks for the name first and makes it then: another process was between the two.
            Err(error) if Causes(&error).to_string().contains("already exists") => {
                engine.client.inspect_volume(&self.name).await
            }
            created => created,
        };
        let created = created.map_err(|error| engine_error(tier, Operation::Volume, error))?;
        let mut folders = folders().lock().unwrap_or_else(PoisonError::into_inner);
        folders.insert(self.key(engine), created.mountpoint.clone());
        Ok(created.mountpoint)
    }

    /// The volume's folder on the engine's host, as this process has last heard.
    fn folder(&self, engine: &Engine) -> Option<String> {
        let folders = folders().lock().unwrap_or_else(PoisonError::into_inner);
        folders.get(&self.key(engine)).cloned()
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

    fn key(&self, engine: &Engine) -> Key {
        (engine.endpoint.to_string(), self.name.clone())
    }

    /// What is in the volume, seen through a container that has it mounted.
    pub(crate) async fn inspect(
        &self,
        tier: Tier,
        engine: &Engine,
        container: &str,
    ) -> Result<Content> {
        let client = &engine.client;
        let options = DownloadFromContainerOptions {
            path: FOLDER.to_owned(),
        };
        let mut stream = std::pin::pin!(client.download_from_container(container, Some(options)));
        // An archive of the agent alone has a few KiB beside it. Whatever is larger is not ours.
        let files = self.files();
        let limit = files.iter().map(|file| file.content.len()).sum::<usize>() + 64 * 1024;
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
        let root = engine.facts.engine_user;
        let root = root.filter(|_| engine.facts.user_namespace);
        Ok(archive::compare(&bytes, &files, root.unwrap_or_default()))
    }
}

fn verified() -> &'static Mutex<HashSet<Key>> {
    static VERIFIED: OnceLock<Mutex<HashSet<Key>>> = OnceLock::new();
    VERIFIED.get_or_init(Mutex::default)
}

/// An engine and a volume of it.
type Key = (String, String);

fn folders() -> &'static Mutex<HashMap<Key, String>> {
    static FOLDERS: OnceLock<Mutex<HashMap<Key, String>>> = OnceLock::new();
    FOLDERS.get_or_init(Mutex::default)
}

/// What a volume holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// What it must, byte for byte, and nothing else.
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
