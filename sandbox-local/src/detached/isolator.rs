//! A detached sandbox, as a client of its agent needs it: whoever ends it, its keeper does.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{Signal, pidfd_send_signal};
use sandbox_agent::protocol::keep::files;
use sandbox_core::{Error, Result};
use sandbox_host::state::read_private;
use sandbox_host::{CounterFiles, Counters, Isolator};

use super::record::Record;
use super::sandboxes::{KeeperState, Sandboxes, name_of};
use super::stale;
use crate::cgroup::Group;
use crate::error;
use crate::isolator::wait_for_end;

/// How long a keeper may take to end everything: 5 s for processes, and the rest.
const END: Duration = Duration::from_secs(9);

/// How long a keeper is waited for whose agent has gone, before it is asked for the reason.
const POST_MORTEM: Duration = Duration::from_secs(1);

/// Ends, and tells about, one detached sandbox.
#[derive(Debug, Clone)]
pub(crate) struct KeptIsolator(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    sandboxes: Sandboxes,
    name: String,
    keeper: Arc<OwnedFd>,
    /// The creator's stream to the keeper, until the sandbox is kept.
    control: Mutex<Option<StdUnixStream>>,
    facts: Mutex<Option<Facts>>,
}

/// What is known once the sandbox is kept.
#[derive(Debug)]
struct Facts {
    record: Record,
    kills: Kills,
    /// Opened when they are first asked for.
    counters: OnceLock<CounterFiles>,
}

impl Facts {
    /// What the kernel has refused the code of the sandbox. The agent is its keeper's to reap, which ends with it: so while the keeper
    /// lives, the number is the agent's.
    fn counters(&self) -> Counters {
        let parts = &self.record.parts;
        let files = self.counters.get_or_init(|| {
            let agent = parts.own_network.then_some(parts.agent.pid);
            CounterFiles::open(parts.process_limit.as_deref(), agent)
        });
        files.read()
    }
}

/// Where kills for memory are counted.
#[derive(Debug)]
enum Kills {
    Unknown,
    Group(Group),
    File(PathBuf),
}

impl Kills {
    fn of(record: &Record, folder: PathBuf) -> Self {
        if record.parts.sampled {
            return Self::File(folder.join(name_of(files::MEMORY_KILLS)));
        }
        match &record.parts.counter {
            Some(counter) => Self::Group(Group::of_others(&[], Some(counter))),
            None => Self::Unknown,
        }
    }

    fn count(&self) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::Group(group) => group.oom_kills(),
            Self::File(path) => match read_private(path, 32) {
                Ok(text) => std::str::from_utf8(&text).ok()?.trim().parse().ok(),
                // Made with the first.
                Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Some(0),
                Err(_) => None,
            },
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KeptIsolator {
    /// Of a sandbox that is being created: the end of `control` is the end of the sandbox.
    pub(super) fn of_new(
        sandboxes: Sandboxes,
        name: &str,
        keeper: OwnedFd,
        control: StdUnixStream,
    ) -> Self {
        Self(Arc::new(Inner {
            sandboxes,
            name: name.to_owned(),
            keeper: Arc::new(keeper),
            control: Mutex::new(Some(control)),
            facts: Mutex::new(None),
        }))
    }

    /// Of a sandbox that is kept.
    pub(super) fn of_kept(sandboxes: Sandboxes, record: Record, keeper: OwnedFd) -> Self {
        let isolator = Self(Arc::new(Inner {
            sandboxes,
            name: record.plan.name.clone(),
            keeper: Arc::new(keeper),
            control: Mutex::new(None),
            facts: Mutex::new(None),
        }));
        isolator.learn(record);
        isolator
    }

    /// The stream to the keeper, to say that the sandbox works. It ends the sandbox if it is dropped before.
    pub(super) fn take_control(&self) -> Option<StdUnixStream> {
        lock(&self.0.control).take()
    }

    /// The sandbox is kept.
    pub(super) fn learn(&self, record: Record) {
        let kills = Kills::of(&record, self.0.sandboxes.folder_of(&self.0.name));
        *lock(&self.0.facts) = Some(Facts {
            record,
            kills,
            counters: OnceLock::new(),
        });
    }

    /// Ends the sandbox through its keeper, and without it where it does not.
    pub(super) async fn end(&self) -> Result<()> {
        let inner = &self.0;
        self.end_soon();
        wait_for_end(&inner.keeper, END).await;
        if !stale::wait(&inner.keeper, Duration::ZERO) {
            // Its end ends the agent; what it leaves is removed below.
            let _ = pidfd_send_signal(&*inner.keeper, Signal::KILL);
            wait_for_end(&inner.keeper, END).await;
        }
        let (sandboxes, name) = (inner.sandboxes.clone(), inner.name.clone());
        let keeper = lock(&inner.facts)
            .as_ref()
            .map(|facts| facts.record.parts.keeper);
        let clear = move || {
            let Some(entry) = sandboxes.entry(&name)? else {
                return Ok(());
            };
            let is_ours = match &entry.record {
                Some(Ok(record)) => keeper.is_none_or(|keeper| keeper == record.parts.keeper),
                Some(Err(_)) | None => true,
            };
            // Somebody may have made another one of that name since.
            if entry.keeper != KeeperState::Gone || !is_ours {
                return Ok(());
            }
            stale::end(&entry).map_err(|left| error::destroy(&sandboxes.tier, left))
        };
        match tokio::task::spawn_blocking(clear).await {
            Ok(cleared) => cleared,
            Err(panicked) => Err(error::destroy(&inner.sandboxes.tier, panicked.to_string())),
        }
    }

    /// Ends a sandbox whose creation failed; gives the error, with what could not be removed.
    pub(super) async fn after(&self, failed: Error) -> Error {
        match self.end().await {
            Ok(()) => failed,
            Err(left) => failed.with_source(left),
        }
    }

    fn end_soon(&self) {
        drop(lock(&self.0.control).take());
        // It may have ended by itself.
        let _ = pidfd_send_signal(&*self.0.keeper, Signal::TERM);
    }
}

#[async_trait]
impl Isolator for KeptIsolator {
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
            .map(Facts::counters)
            .unwrap_or_default()
    }

    async fn post_mortem(&self) -> Option<String> {
        wait_for_end(&self.0.keeper, POST_MORTEM).await;
        if !stale::wait(&self.0.keeper, Duration::ZERO) {
            return None;
        }
        let facts = lock(&self.0.facts);
        let record = &facts.as_ref()?.record;
        Some(match (record.is_over(), record.plan.lifetime) {
            (true, Some(lifetime)) => format!("its lifetime of {lifetime:?} is over"),
            _ => "the sandbox was ended by somebody else, or its keeper was killed".to_owned(),
        })
    }
}

/// A descriptor of this process, which a keeper watches until the sandbox is its own.
pub(super) fn own_process() -> std::io::Result<OwnedFd> {
    use rustix::process::{PidfdFlags, getpid, pidfd_open};
    Ok(pidfd_open(getpid(), PidfdFlags::empty())?)
}

/// The folder of a sandbox, open, so that its socket can be named by a short path.
pub(super) fn open_folder(path: &std::path::Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::NOFOLLOW;
    File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}
