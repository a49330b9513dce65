//! What an agent's client needs to know about a sandbox.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sandbox_agent::protocol::{AgentSettings, ClientKey, Confinement};
use sandbox_core::{
    Capability, Enforcement, EnforcementReport, Error, ErrorKind, Mechanism, Plan, Result,
};

use crate::confinement::export_folders;
use crate::egress::{Egress, EgressConfig, EgressOptions};
use crate::state::DetachedRecord;
use crate::tcp::code;

/// The writable folder that code starts in: the workspace, if the specification has one.
pub const WORK_FOLDER: &str = "/workspace";

/// The image of a sandbox whose specification and configuration name none.
pub const DEFAULT_IMAGE: &str = "python:3.11-slim";

/// The default `PATH` in a sandbox.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The default `HOME` in a sandbox, which is always writable.
pub const HOME: &str = "/tmp";

/// The agent ends everything after this long without a frame from the host, which pings three times
/// as often.
const LEASE_MS: u64 = 30_000;

/// How much output of executions the agent keeps for [`sandbox_core::SandboxHandle::logs`].
const LOG_BYTES: u32 = 8 * 1024 * 1024;

/// What the first client of an agent needs to know about a sandbox.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sandbox {
    /// The settings in the first message.
    pub settings: AgentSettings,
    /// The connections of code, if rules allow any: see [`Sandbox::with_egress`].
    pub egress: Option<Arc<Egress>>,
    /// The environment of all executions, below the request's own.
    pub env: BTreeMap<String, String>,
    /// The enforcement report.
    pub enforcement: EnforcementReport,
    /// Folders of the host that code can write to. Code may have placed anything there.
    pub writable: Vec<PathBuf>,
    /// Whether links that leave their folder are followed in host paths: [`Plan::follow_links`].
    pub follow_links: bool,
    /// The longest duration of one file operation: [`Plan::file_timeout`].
    pub file_timeout: Duration,
    /// Whether the sandbox outlives the handle that created it: see [`Sandbox::detached`].
    pub detached: bool,
}

/// What a later client of an agent needs to know about a sandbox that another client created.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AttachedSandbox {
    /// The environment of all executions, below the request's own.
    pub env: BTreeMap<String, String>,
    /// The enforcement report.
    pub enforcement: EnforcementReport,
    /// Folders of the host that code can write to: see [`Sandbox::writable`].
    pub writable: Vec<PathBuf>,
    /// See [`Sandbox::follow_links`].
    pub follow_links: bool,
    /// See [`Sandbox::file_timeout`].
    pub file_timeout: Duration,
    /// The connections of code, if rules allow any and this process carries them: see
    /// [`AttachedSandbox::with_egress`].
    pub egress: Option<Arc<Egress>>,
}

impl AttachedSandbox {
    /// A sandbox as described by its creator: its plan, and the final [`Sandbox::env`] and
    /// [`Sandbox::enforcement`].
    #[must_use]
    pub fn new(plan: &Plan, env: BTreeMap<String, String>, enforcement: EnforcementReport) -> Self {
        Self {
            env,
            enforcement,
            writable: plan.writable_sources().map(Into::into).collect(),
            follow_links: plan.follow_links,
            file_timeout: plan.file_timeout,
            egress: None,
        }
    }

    /// Lets this process carry the connections of code, if the sandbox was created with rules that
    /// are enforced.
    ///
    /// # Errors
    ///
    /// As [`EgressOptions::new`].
    pub fn with_egress(mut self, plan: &Plan, config: EgressConfig<'_>) -> Result<Self> {
        let network = self.enforcement.get(Capability::NetworkAccess);
        let mechanisms = network.map_or(&[][..], Enforcement::mechanisms);
        if mechanisms.contains(&Mechanism::HostDialsAllowedNames) {
            self.egress = code::egress(plan, EgressOptions::new(config)?);
        }
        Ok(self)
    }
}

impl<P> From<&DetachedRecord<P>> for AttachedSandbox {
    fn from(record: &DetachedRecord<P>) -> Self {
        Self::new(&record.plan, record.env.clone(), record.enforcement.clone())
    }
}

impl From<Sandbox> for AttachedSandbox {
    /// Drops what only the first client needs.
    fn from(sandbox: Sandbox) -> Self {
        Self {
            env: sandbox.env,
            enforcement: sandbox.enforcement,
            writable: sandbox.writable,
            follow_links: sandbox.follow_links,
            file_timeout: sandbox.file_timeout,
            egress: sandbox.egress,
        }
    }
}

impl Sandbox {
    /// The default settings for a plan: a random key, a lease of 30 s, an 8 MiB log; owned by its
    /// stream; starting in [`WORK_FOLDER`]. The parent folders of export paths are created.
    ///
    /// # Errors
    ///
    /// If the system provides no random bytes.
    pub fn new(
        plan: &Plan,
        confinement: Confinement,
        enforcement: EnforcementReport,
    ) -> Result<Self> {
        let mut env = BTreeMap::from([
            ("HOME".to_owned(), HOME.to_owned()),
            ("PATH".to_owned(), PATH.to_owned()),
        ]);
        env.extend(plan.env.clone());
        let settings = AgentSettings {
            key: random_key()?,
            lease_ms: LEASE_MS,
            owned: true,
            detached_after_attach: false,
            lifetime_ms: 0,
            log_bytes: LOG_BYTES,
            workdir: plan
                .workdir
                .as_deref()
                .unwrap_or(WORK_FOLDER)
                .as_bytes()
                .to_vec(),
            launcher: Vec::new(),
            expected_objects: Vec::new(),
            chown_dirs: Vec::new(),
            make_dirs: export_folders(&plan.export_paths)
                .into_iter()
                .map(|folder| folder.into_os_string().into_encoded_bytes())
                .collect(),
            kill_count_files: Vec::new(),
            egress: None,
            confinement,
        };
        Ok(Self {
            settings,
            egress: None,
            env,
            enforcement,
            detached: false,
            writable: plan.writable_sources().map(Into::into).collect(),
            follow_links: plan.follow_links,
            file_timeout: plan.file_timeout,
        })
    }

    /// Makes the sandbox outlive the handle that created it. The agent ends neither with its first
    /// stream nor without pings. It needs a listening socket (`--listen-fd`), and something that
    /// ends it at its time to live. Its key is [`AgentSettings::key`].
    #[must_use]
    pub fn detached(mut self) -> Self {
        self.detached = true;
        self.settings.owned = false;
        self.settings.lease_ms = 0;
        self
    }

    /// Makes the sandbox detached once a later client has connected. Until then its agent ends with
    /// its first stream, and without pings. So a creator that is killed before the hand-over leaves
    /// nothing.
    #[must_use]
    pub fn detached_after_attach(mut self) -> Self {
        self.detached = true;
        self.settings.detached_after_attach = true;
        self
    }

    /// Lets code connect to the hosts that the plan's rules allow, if it has rules. The sandbox must
    /// have its own network namespace without any other way out.
    ///
    /// # Errors
    ///
    /// As [`EgressOptions::new`].
    pub fn with_egress(mut self, plan: &Plan, config: EgressConfig<'_>) -> Result<Self> {
        self.settings.egress = code::settings(plan);
        self.egress = code::egress(plan, EgressOptions::new(config)?);
        Ok(self)
    }

    /// Makes the agent run each program by this command, with the program and its arguments as the
    /// last words. File operations are not affected.
    #[must_use]
    pub fn launched_by(mut self, command: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        self.settings.launcher = command.into_iter().map(Into::into).collect();
        self
    }

    /// Makes the agent count kills for memory, if the host cannot ([`crate::Isolator::oom_kills`]).
    /// The agent must see the sandbox's own control group below `/sys/fs/cgroup`.
    #[must_use]
    pub fn counting_memory_kills(mut self) -> Self {
        self.settings.kill_count_files = KILL_COUNTS.map(Vec::from).into();
        self
    }

    /// Makes the agent end everything at the time to live. The isolator must enforce it, too, since
    /// code that controls its agent can ignore it.
    #[must_use]
    pub fn ending_after(mut self, lifetime: Duration) -> Self {
        let milliseconds = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        self.settings.lifetime_ms = milliseconds.max(1);
        self
    }
}

/// The files with the count of kills for memory, for both versions of control groups. A cgroup
/// namespace, or the engine's mount, makes the sandbox's group the root.
const KILL_COUNTS: [&str; 2] = [
    "/sys/fs/cgroup/memory.events",
    "/sys/fs/cgroup/memory/memory.oom_control",
];

/// A random key.
pub(crate) fn random_key() -> Result<ClientKey> {
    let mut key = [0; ClientKey::LEN];
    let filled = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty());
    match filled {
        Ok(ClientKey::LEN) => Ok(ClientKey::new(key)),
        _ => Err(Error::new(
            ErrorKind::Io,
            "make a key",
            "the system gave no random bytes",
        )),
    }
}
