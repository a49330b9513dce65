//! The isolator of a detached sandbox for clients of its agent. For every client, the supervisor
//! ends the sandbox.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{Signal, pidfd_send_signal};
use sandbox_agent::protocol::keep::files;
use sandbox_core::{Result, SandboxStats};
use sandbox_host::state::read_private;
use sandbox_host::{CounterFiles, Counters, Isolator, lock};

use super::folder::{SandboxesFolder, SupervisorState, name_of};
use super::leftovers;
use super::record::LocalRecord;
use crate::cgroup::Group;
use crate::cleanup::KILL_TIMEOUT;
use crate::error;
use crate::isolator::wait_for_end;

/// Time limit for the supervisor to end everything: the processes, then what they leave.
const SUPERVISOR_TIMEOUT: Duration = KILL_TIMEOUT.saturating_add(Duration::from_secs(4));

/// How long to wait for the supervisor of an ended agent before asking for the exit reason.
const POST_MORTEM: Duration = Duration::from_secs(1);

/// Ends one detached sandbox, and reports its kills, denials and exit.
#[derive(Debug, Clone)]
pub(crate) struct DetachedIsolator(Arc<SupervisedSandbox>);

#[derive(Debug)]
struct SupervisedSandbox {
    sandboxes: SandboxesFolder,
    name: String,
    supervisor: Arc<OwnedFd>,
    /// The creator's control stream to the supervisor, until the handover.
    control: Mutex<Option<StdUnixStream>>,
    facts: Mutex<Option<DetachedFacts>>,
}

/// The properties of a sandbox that are known after the handover.
#[derive(Debug)]
struct DetachedFacts {
    record: LocalRecord,
    kills: KillCounter,
    /// Opened on the first request.
    counters: OnceLock<CounterFiles>,
}

impl DetachedFacts {
    /// What the kernel has refused the code of the sandbox. The agent's process id is valid while
    /// the supervisor lives: it is the agent's parent.
    fn counters(&self) -> Counters {
        let parts = &self.record.parts;
        let files = self.counters.get_or_init(|| {
            let agent = parts.own_network.then_some(parts.agent.pid);
            CounterFiles::open(parts.process_limit.as_deref(), agent)
        });
        files.read()
    }
}

/// Where memory kills are counted.
#[derive(Debug)]
enum KillCounter {
    Unknown,
    Group(Group),
    File(PathBuf),
}

impl KillCounter {
    fn of(record: &LocalRecord, folder: PathBuf) -> Self {
        if record.parts.sampled {
            return Self::File(folder.join(name_of(files::MEMORY_KILLS)));
        }
        match &record.parts.counter {
            Some(counter) => Self::Group(Group::existing(&[], Some(counter))),
            None => Self::Unknown,
        }
    }

    fn count(&self) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::Group(group) => group.oom_kills(),
            Self::File(path) => match read_private(path, 32) {
                Ok(text) => std::str::from_utf8(&text).ok()?.trim().parse().ok(),
                // Created with the first kill.
                Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Some(0),
                Err(_) => None,
            },
        }
    }
}

impl DetachedIsolator {
    /// For a sandbox that is being created. Closing `control` ends the sandbox.
    pub(super) fn for_new(
        sandboxes: SandboxesFolder,
        name: &str,
        supervisor: OwnedFd,
        control: StdUnixStream,
    ) -> Self {
        Self(Arc::new(SupervisedSandbox {
            sandboxes,
            name: name.to_owned(),
            supervisor: Arc::new(supervisor),
            control: Mutex::new(Some(control)),
            facts: Mutex::new(None),
        }))
    }

    /// For a sandbox whose supervisor has taken over.
    pub(super) fn for_existing(
        sandboxes: SandboxesFolder,
        record: LocalRecord,
        supervisor: OwnedFd,
    ) -> Self {
        let isolator = Self(Arc::new(SupervisedSandbox {
            sandboxes,
            name: record.plan.name.clone(),
            supervisor: Arc::new(supervisor),
            control: Mutex::new(None),
            facts: Mutex::new(None),
        }));
        isolator.set_record(record);
        isolator
    }

    /// Takes the control stream to confirm that the sandbox works. Dropping the stream ends the
    /// sandbox.
    pub(super) fn take_control(&self) -> Option<StdUnixStream> {
        lock(&self.0.control).take()
    }

    /// Stores the record after the handover.
    pub(super) fn set_record(&self, record: LocalRecord) {
        let kills = KillCounter::of(&record, self.0.sandboxes.folder_of(&self.0.name));
        *lock(&self.0.facts) = Some(DetachedFacts {
            record,
            kills,
            counters: OnceLock::new(),
        });
    }

    /// Asks the supervisor to end the sandbox. Kills the supervisor and cleans up if it does not.
    pub(super) async fn end(&self) -> Result<()> {
        let inner = &self.0;
        self.end_soon();
        wait_for_end(&inner.supervisor, SUPERVISOR_TIMEOUT).await;
        if !leftovers::wait_for_exit(&inner.supervisor, Duration::ZERO) {
            // The end of the supervisor ends the agent. Leftovers are removed below.
            let _ = pidfd_send_signal(&*inner.supervisor, Signal::KILL);
            wait_for_end(&inner.supervisor, SUPERVISOR_TIMEOUT).await;
        }
        let (sandboxes, name) = (inner.sandboxes.clone(), inner.name.clone());
        let supervisor = lock(&inner.facts)
            .as_ref()
            .map(|facts| facts.record.parts.supervisor);
        let clear = move || {
            let Some(entry) = sandboxes.entry(&name)? else {
                return Ok(());
            };
            let is_ours = match &entry.record {
                Some(Ok(record)) => {
                    supervisor.is_none_or(|supervisor| supervisor == record.parts.supervisor)
                }
                Some(Err(_)) | None => true,
            };
            // Another process may have created a sandbox of that name since.
            if entry.supervisor != SupervisorState::Gone || !is_ours {
                return Ok(());
            }
            leftovers::remove_all(&entry).map_err(|left| error::destroy(&sandboxes.tier, left))
        };
        match tokio::task::spawn_blocking(clear).await {
            Ok(cleared) => cleared,
            Err(panicked) => Err(error::destroy(&inner.sandboxes.tier, panicked.to_string())),
        }
    }

    fn end_soon(&self) {
        drop(lock(&self.0.control).take());
        // The supervisor may have ended already.
        let _ = pidfd_send_signal(&*self.0.supervisor, Signal::TERM);
    }
}

#[async_trait]
impl Isolator for DetachedIsolator {
    fn tier(&self) -> &str {
        &self.0.sandboxes.tier
    }

    async fn destroy(&self) -> Result<()> {
        self.end().await
    }

    fn destroy_soon(&self) {
        self.end_soon();
    }

    async fn oom_kills(&self) -> Option<u64> {
        lock(&self.0.facts).as_ref()?.kills.count()
    }

    async fn counters(&self) -> Counters {
        lock(&self.0.facts)
            .as_ref()
            .map(DetachedFacts::counters)
            .unwrap_or_default()
    }

    async fn stats(&self) -> SandboxStats {
        let facts = lock(&self.0.facts);
        let groups = facts.as_ref().map(|facts| &facts.record.parts.groups);
        let group = groups.map(|groups| Group::existing(groups, None));
        group.map(|group| group.stats()).unwrap_or_default()
    }

    async fn post_mortem(&self) -> Option<String> {
        wait_for_end(&self.0.supervisor, POST_MORTEM).await;
        if !leftovers::wait_for_exit(&self.0.supervisor, Duration::ZERO) {
            return None;
        }
        let facts = lock(&self.0.facts);
        let record = &facts.as_ref()?.record;
        Some(match (record.is_over(), record.plan.lifetime) {
            (true, Some(lifetime)) => format!("its lifetime of {lifetime:?} is over"),
            _ => {
                "the sandbox was ended by another process, or its supervisor was killed".to_owned()
            }
        })
    }
}

/// A pidfd of this process. The supervisor watches it until the handover.
pub(super) fn own_process() -> std::io::Result<OwnedFd> {
    use rustix::process::{PidfdFlags, getpid, pidfd_open};
    Ok(pidfd_open(getpid(), PidfdFlags::empty())?)
}

/// Opens the folder of a sandbox, so that its socket has a short path.
pub(super) fn open_folder(path: &std::path::Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::NOFOLLOW;
    File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}
