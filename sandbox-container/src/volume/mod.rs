//! The volume with the agent: named by the agent's hash, filled once per engine, and verified
//! before use.
//!
//! It is filled, and where this process cannot read its folder also read, through containers that
//! are never started, so nothing of an image runs.

mod archive;
mod fill;
mod host_folder;
mod profile;
mod unused;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock};

use bollard::models::{
    Mount, MountBindOptions, MountBindOptionsPropagationEnum, MountType, Volume,
    VolumeCreateRequest,
};
use bollard::query_parameters::DownloadFromContainerOptions;
use futures_util::StreamExt;
use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::lock;

pub(crate) use fill::{fill, reader_container};
pub(crate) use unused::remove_unused;

use crate::engine::{Endpoint, Engine};
use crate::error::{ErrorChain, Operation, engine_error, has_status};
use crate::image::UserFiles;
use crate::labels;
use crate::{ProfileForm, Tier};
use archive::VolumeFile;

/// Mount point of the volume in every container.
pub(crate) const FOLDER: &str = "/.sandbox-agent";

/// Path of the agent's program in every container.
pub(crate) const AGENT: &str = "/.sandbox-agent/agent";

/// Folder of a detached agent's socket. Only the agent's user may enter.
pub(crate) const SOCKET_FOLDER: &str = "/.sandbox-socket";

/// Path of a detached agent's socket.
pub(crate) const SOCKET: &str = "/.sandbox-socket/agent";

/// Name prefix of agent volumes.
const PREFIX: &str = "sandbox-agent-";

/// Paths that an engine's error names if a file of the volume is missing.
const FILE_PATHS: [&str; 6] = [
    AGENT,
    profile::FILE,
    RESOLV_CONF,
    HOSTS,
    USER_FILES[0].0,
    USER_FILES[1].0,
];

/// Permission bits of the agent: everyone may execute it.
const AGENT_MODE: u32 = 0o555;

/// The file that names the agent as name server, for sandboxes with egress rules. It is mounted by
/// its path on the engine's host, because engines write no such file without a network.
pub(crate) const RESOLV_CONF: &str = "resolv.conf";

/// The file of names for sandboxes without a network. Podman copies the names of its host into each container,
/// and an address from there bypasses the agent, so that no rule for the name applies.
pub(crate) const HOSTS: &str = "hosts";

/// The files of users with an entry for the code's user, and where programs read them.
const USER_FILES: [(&str, &str); 2] = [
    ("image-passwd", "/etc/passwd"),
    ("image-group", "/etc/group"),
];

/// Permission bits of the other files.
const DATA_MODE: u32 = 0o444;

/// The agent's program and the volume that carries it, with the files of names and users, and with
/// the seccomp profile if the engine reads that from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentVolume {
    /// Name of the volume.
    pub name: String,
    program: Arc<[u8]>,
    users: Arc<UserFiles>,
    profile: Option<&'static str>,
    form: ProfileForm,
}

impl AgentVolume {
    /// The volume of this program.
    pub(crate) fn new(program: Arc<[u8]>, form: ProfileForm) -> Self {
        let volume = Self {
            name: String::new(),
            profile: profile::of_program(&program),
            program,
            users: Arc::default(),
            form,
        };
        volume.named()
    }

    /// The volume that also has these files. Images with the same users share it.
    pub(crate) fn with_users(&self, users: UserFiles) -> Self {
        if users == UserFiles::default() {
            return self.clone();
        }
        let volume = Self {
            users: Arc::new(users),
            ..self.clone()
        };
        volume.named()
    }

    fn named(mut self) -> Self {
        let mut hash = blake3::Hasher::new();
        for file in self.files() {
            hash.update(file.content);
        }
        self.name = format!("{PREFIX}{}", &hash.finalize().to_hex()[..16]);
        self
    }

    /// Mounts the files of users, from the volume at this path of the engine's host.
    pub(crate) fn user_mounts(&self, folder: &str) -> Vec<Mount> {
        let files = [&self.users.passwd, &self.users.group];
        let files = USER_FILES.iter().zip(files);
        let mounts = files.filter(|(_, content)| content.is_some());
        mounts
            .map(|((name, target), _)| file_mount(folder, name, target))
            .collect()
    }

    /// The volume of the built-in agent.
    pub(crate) fn built_in(form: ProfileForm) -> Self {
        static BUILT_IN: [OnceLock<AgentVolume>; 2] = [OnceLock::new(), OnceLock::new()];
        let volume = &BUILT_IN[usize::from(form == ProfileForm::File)];
        let built_in = || Self::new(sandbox_agent::program().into(), form);
        volume.get_or_init(built_in).clone()
    }

    fn files(&self) -> Vec<VolumeFile<'_>> {
        let agent = VolumeFile {
            name: "agent",
            mode: AGENT_MODE,
            content: &self.program,
        };
        let profile = self.profile.filter(|_| self.form == ProfileForm::File);
        let profile = profile.map(|text| VolumeFile {
            name: profile::FILE,
            mode: DATA_MODE,
            content: text.as_bytes(),
        });
        let resolv_conf = VolumeFile {
            name: RESOLV_CONF,
            mode: DATA_MODE,
            content: sandbox_host::egress::RESOLV_CONF.as_bytes(),
        };
        let hosts = VolumeFile {
            name: HOSTS,
            mode: DATA_MODE,
            content: sandbox_host::egress::HOSTS.as_bytes(),
        };
        let users = [&self.users.passwd, &self.users.group];
        let users = USER_FILES.iter().zip(users);
        let users = users.filter_map(|((name, _), content)| {
            Some(VolumeFile {
                name,
                mode: DATA_MODE,
                content: content.as_ref()?.as_bytes(),
            })
        });
        let files = [agent, resolv_conf, hosts];
        files.into_iter().chain(profile).chain(users).collect()
    }

    /// The program's seccomp profile as the engine takes it: text, or a file name on the engine's
    /// host. `None` if the program's architecture has none.
    ///
    /// # Errors
    ///
    /// The engine cannot create the volume, or does not report its path.
    pub(crate) async fn profile(&self, tier: Tier, engine: &Engine) -> Result<Option<String>> {
        let Some(text) = self.profile else {
            return Ok(None);
        };
        match self.form {
            ProfileForm::Text => Ok(Some(text.to_owned())),
            ProfileForm::File => {
                let folder = self.host_folder(tier, engine).await?;
                Ok(Some(format!("{folder}/{}", profile::FILE)))
            }
        }
    }

    /// The volume's path on the engine's host.
    ///
    /// # Errors
    ///
    /// The engine cannot create the volume, or does not report its path.
    pub(crate) async fn host_folder(&self, tier: Tier, engine: &Engine) -> Result<String> {
        match self.folder(engine) {
            Some(folder) => Ok(folder),
            None => Ok(self.create(tier, engine).await?.mountpoint),
        }
    }

    /// Whether the engine refuses a container because a file of the volume is missing: the volume
    /// was removed after this process verified it, and the engine created an empty one.
    pub(crate) fn is_missing_file_error(error: &Error) -> bool {
        FILE_PATHS.iter().any(|file| error.context().contains(file))
    }

    /// The agent's program.
    pub(crate) fn program(&self) -> &[u8] {
        &self.program
    }

    /// Ensures that the volume exists, with any content.
    pub(crate) async fn create(&self, tier: Tier, engine: &Engine) -> Result<Volume> {
        let request = VolumeCreateRequest {
            name: Some(self.name.clone()),
            labels: Some(labels::managed(tier)),
            ..VolumeCreateRequest::default()
        };
        let created = match engine.client.create_volume(request).await {
            // Podman checks for the name before it creates the volume, so two requests can race.
            Err(error) if ErrorChain(&error).to_string().contains("already exists") => {
                engine.client.inspect_volume(&self.name).await
            }
            created => created,
        };
        let created = created.map_err(|error| engine_error(tier, Operation::Volume, error))?;
        let mut folders = lock(folders());
        folders.insert(self.key(engine), created.mountpoint.clone());
        Ok(created)
    }

    /// The volume's folder on the engine's host, as last reported.
    fn folder(&self, engine: &Engine) -> Option<String> {
        let folders = lock(folders());
        folders.get(&self.key(engine)).cloned()
    }

    /// Whether this process has verified the content on this engine.
    pub(crate) fn is_verified(&self, engine: &Engine) -> bool {
        lock(verified()).contains(&self.key(engine))
    }

    /// Notes that the content is verified.
    pub(crate) fn set_verified(&self, engine: &Engine) {
        lock(verified()).insert(self.key(engine));
    }

    /// Notes that the content has changed since it was verified.
    pub(crate) fn forget(&self, engine: &Engine) {
        lock(verified()).remove(&self.key(engine));
    }

    fn key(&self, engine: &Engine) -> VolumeKey {
        (engine.endpoint.to_string(), self.name.clone())
    }

    /// Whether the volume's folder, read on this host, holds exactly our files. `false` also if the
    /// folder cannot be read, or is not what the engine mounts.
    pub(crate) fn is_intact_on_host(&self, engine: &Engine, volume: &Volume) -> bool {
        // A volume with options is mounted from elsewhere.
        if volume.driver != "local" || !volume.options.is_empty() {
            return false;
        }
        let Some(Endpoint::Unix(socket)) = &engine.address else {
            return false;
        };
        let owner = engine.facts.engine_user.unwrap_or_default();
        let held = host_folder::root_of_listener(socket)
            .and_then(|root| host_folder::holds(root, &volume.mountpoint, &self.files(), owner));
        held.unwrap_or_else(|error| {
            tracing::debug!(volume = volume.name, %error, "the volume is not read on this host");
            false
        })
    }

    /// Reads the volume through a container that mounts it.
    pub(crate) async fn inspect(
        &self,
        tier: Tier,
        engine: &Engine,
        container: &str,
    ) -> Result<VolumeContent> {
        let client = &engine.client;
        let options = DownloadFromContainerOptions {
            path: FOLDER.to_owned(),
        };
        let mut stream = std::pin::pin!(client.download_from_container(container, Some(options)));
        // The archive adds a few KiB to the files. Anything larger is not ours.
        let files = self.files();
        let limit = files.iter().map(|file| file.content.len()).sum::<usize>() + 64 * 1024;
        let mut bytes = Vec::new();
        while let Some(piece) = stream.next().await {
            let piece = match piece {
                Ok(piece) => piece,
                Err(error) if has_status(&error, 404) => return Ok(VolumeContent::Empty),
                Err(error) => return Err(engine_error(tier, Operation::Volume, error)),
            };
            bytes.extend_from_slice(&piece);
            if bytes.len() > limit {
                return Ok(VolumeContent::Other("more than the agent".into()));
            }
        }
        let root = engine.facts.engine_user;
        let root = root.filter(|_| engine.facts.user_namespace);
        Ok(archive::compare(&bytes, &files, root.unwrap_or_default()))
    }
}

/// Mounts a file of the volume, which is at this path of the engine's host.
pub(crate) fn file_mount(folder: &str, file: &str, target: &str) -> Mount {
    Mount {
        target: Some(target.to_owned()),
        source: Some(format!("{folder}/{file}")),
        typ: Some(MountType::BIND),
        read_only: Some(true),
        bind_options: Some(MountBindOptions {
            // Docker refuses stricter ones for a file in its own folder. Nothing is mounted there.
            propagation: Some(MountBindOptionsPropagationEnum::RSLAVE),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    }
}

fn verified() -> &'static Mutex<HashSet<VolumeKey>> {
    static VERIFIED: OnceLock<Mutex<HashSet<VolumeKey>>> = OnceLock::new();
    VERIFIED.get_or_init(Mutex::default)
}

/// An engine's endpoint and a volume's name.
type VolumeKey = (String, String);

fn folders() -> &'static Mutex<HashMap<VolumeKey, String>> {
    static FOLDERS: OnceLock<Mutex<HashMap<VolumeKey, String>>> = OnceLock::new();
    FOLDERS.get_or_init(Mutex::default)
}

/// The content of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VolumeContent {
    /// Exactly the expected files, byte for byte.
    Agent,
    /// Nothing yet.
    Empty,
    /// Something else, with the difference.
    Other(String),
}

/// The error for a volume that does not hold the agent.
fn content_error(tier: Tier, volume: &AgentVolume, why: &str) -> Error {
    let context = format!("volume {} does not hold the agent: {why}", volume.name);
    Error::new(
        ErrorKind::SetupFailed,
        "provide the agent's volume",
        context,
    )
    .on(tier)
    .with_fix(format!("{} volume rm {}", tier.family.command, volume.name))
}
