//! What the client of an agent needs to know of a sandbox.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use sandbox_agent::protocol::{Confinement, Key, Settings};
use sandbox_core::{EnforcementReport, Error, ErrorKind, Plan, Result};

use crate::confinement::export_folders;

/// The folder of every sandbox that code starts in and may write to: the host's workspace where the specification has one.
pub const WORK_FOLDER: &str = "/workspace";

/// Where programs are looked for inside of a sandbox, unless the specification sets `PATH`.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The home folder inside of a sandbox, unless the specification sets `HOME`: a place that is always writable.
pub const HOME: &str = "/tmp";

/// Without a frame from the host for this long the agent ends everything: the host pings three times as often.
const LEASE_MS: u64 = 30_000;

/// How much of the executions' output the agent keeps for [`sandbox_core::SandboxHandle::logs`].
const LOG_BYTES: u32 = 8 * 1024 * 1024;

/// What the client of an agent needs to know of a sandbox.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sandbox {
    /// The first message.
    pub settings: Settings,
    /// The environment of every execution, below the request's own.
    pub env: BTreeMap<String, String>,
    /// What is enforced.
    pub enforcement: EnforcementReport,
    /// Folders of the host that the code can write to: whatever is in them may be the code's trap.
    pub writable: Vec<PathBuf>,
    /// Whether links that leave their folder are followed in paths of the host: [`Plan::follow_links`].
    pub follow_links: bool,
    /// Whether the sandbox outlives the handle that created it: see [`Sandbox::detached`].
    pub detached: bool,
}

/// What a later client of an agent needs to know of a sandbox that somebody else has created.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AttachedSandbox {
    /// The environment of every execution, below the request's own.
    pub env: BTreeMap<String, String>,
    /// What is enforced.
    pub enforcement: EnforcementReport,
    /// Folders of the host that the code can write to: see [`Sandbox::writable`].
    pub writable: Vec<PathBuf>,
    /// See [`Sandbox::follow_links`].
    pub follow_links: bool,
}

impl AttachedSandbox {
    /// A sandbox as its creator has described it: its plan, and [`Sandbox::env`] and [`Sandbox::enforcement`] as they were in
    /// the end.
    #[must_use]
    pub fn new(plan: &Plan, env: BTreeMap<String, String>, enforcement: EnforcementReport) -> Self {
        Self {
            env,
            enforcement,
            writable: writable(plan),
            follow_links: plan.follow_links,
        }
    }
}

impl From<Sandbox> for AttachedSandbox {
    /// The same sandbox, without what its agent was told once.
    fn from(sandbox: Sandbox) -> Self {
        Self {
            env: sandbox.env,
            enforcement: sandbox.enforcement,
            writable: sandbox.writable,
            follow_links: sandbox.follow_links,
        }
    }
}

impl Sandbox {
    /// The usual settings for a plan: a random key, a lease of 30 s, an 8 MiB log; owned by its stream; starting in
    /// [`WORK_FOLDER`]. The parents of export paths are made.
    ///
    /// # Errors
    ///
    /// When the system has no randomness.
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
        let settings = Settings {
            key: random_key()?,
            lease_ms: LEASE_MS,
            owned: true,
            handed_over: false,
            lifetime_ms: 0,
            log_bytes: LOG_BYTES,
            workdir: plan
                .workdir
                .as_deref()
                .unwrap_or(WORK_FOLDER)
                .as_bytes()
                .to_vec(),
            placed: Vec::new(),
            give_dirs: Vec::new(),
            make_dirs: export_folders(&plan.export_paths)
                .into_iter()
                .map(|folder| folder.into_os_string().into_encoded_bytes())
                .collect(),
            kill_counts: Vec::new(),
            confinement,
        };
        Ok(Self {
            settings,
            env,
            enforcement,
            detached: false,
            writable: writable(plan),
            follow_links: plan.follow_links,
        })
    }

    /// The same, of a sandbox that outlives the handle that created it. The agent ends neither with its first stream nor
    /// for want of pings; it needs a listening socket (`--listen-fd`), and whatever ends it at the end of its time to live.
    /// Its key is [`Settings::key`].
    #[must_use]
    pub fn detached(mut self) -> Self {
        self.detached = true;
        self.settings.owned = false;
        self.settings.lease_ms = 0;
        self
    }

    /// The same, of a sandbox that is detached once a later client has come: until then its agent ends with its first stream,
    /// and for want of pings. So nothing is left of a sandbox whose creator is killed before somebody else could take it.
    #[must_use]
    pub fn handed_over(mut self) -> Self {
        self.detached = true;
        self.settings.handed_over = true;
        self
    }

    /// The same, with an agent that counts kills for memory itself, for where the host cannot ([`crate::Isolator::oom_kills`]): it must see
    /// the sandbox's own control group below `/sys/fs/cgroup`.
    #[must_use]
    pub fn counting_memory_kills(mut self) -> Self {
        self.settings.kill_counts = KILL_COUNTS.map(Vec::from).into();
        self
    }

    /// The same, with an agent that ends everything itself when its time to live is over. It is the isolator's to see to that:
    /// code that owns its agent lives on.
    #[must_use]
    pub fn ending_after(mut self, lifetime: Duration) -> Self {
        let milliseconds = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        self.settings.lifetime_ms = milliseconds.max(1);
        self
    }
}

/// Where a sandbox with a control group of its own finds its count of kills for memory, in both versions: a namespace of groups, or the
/// engine's mount, makes that group the root.
const KILL_COUNTS: [&str; 2] = [
    "/sys/fs/cgroup/memory.events",
    "/sys/fs/cgroup/memory/memory.oom_control",
];

/// A key that nobody else has.
pub(crate) fn random_key() -> Result<Key> {
    let mut key = [0; Key::LEN];
    let filled = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty());
    match filled {
        Ok(Key::LEN) => Ok(Key::new(key)),
        _ => Err(Error::new(
            ErrorKind::Io,
            "make a key",
            "the system gave no random bytes",
        )),
    }
}

/// The folders of the host that a plan lets code write to.
fn writable(plan: &Plan) -> Vec<PathBuf> {
    let workspace = plan
        .workspace
        .iter()
        .filter(|workspace| !workspace.read_only);
    let workspace = workspace.map(|workspace| workspace.path.clone());
    plan.write_roots.iter().cloned().chain(workspace).collect()
}
