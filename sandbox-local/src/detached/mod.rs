//! Sandboxes that outlive the process that made them.
//!
//! Each has a folder `sandboxes/NAME` in the state folder. Its supervisor
//! ([`sandbox_agent::protocol::keep`]) creates, locks and removes that folder. The supervisor is
//! the parent of the agent and the owner of its stream, so the sandbox ends with it. All other
//! processes, including the creator, are clients of the agent's socket in that folder.
//!
//! A folder whose lock is free has no supervisor any more, and any process may remove it. A process
//! is ended only if its id, its start time and the boot id match the record.

mod folder;
mod handover;
mod isolator;
mod leftovers;
mod record;
mod start;

use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use sandbox_agent::protocol::keep::files;
use sandbox_core::spi::{Detached, Found, RecordedSandbox};
use sandbox_core::{Error, ErrorKind, Result, SandboxInfo, SandboxState};
use sandbox_host::egress::EgressConfig;
use sandbox_host::state::{ended, read_private};
use sandbox_host::{AgentInstance, AttachedSandbox, ClientKey};
use tokio::net::UnixStream;

use folder::{SandboxEntry, SandboxesFolder, SupervisorState, name_of};
use isolator::{DetachedIsolator, open_folder};
use record::LocalRecord;

use crate::LocalConfig;
use crate::error;
use crate::state;

/// How long to wait for a sandbox that another process is creating or removing.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(3);

/// The polling interval for that.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) use start::{UnconfinedStart, start, start_unconfined};

/// The detached sandboxes of a tier and of this process's user.
#[derive(Debug)]
pub(crate) struct DetachedSandboxes {
    tier: &'static str,
    config: LocalConfig,
}

impl DetachedSandboxes {
    /// Does no I/O.
    pub(crate) fn new(tier: &'static str, config: LocalConfig) -> Self {
        Self { tier, config }
    }

    /// `None` without a state folder.
    ///
    /// # Errors
    ///
    /// If another user owns the state folder or may enter it.
    fn folder(&self) -> Result<Option<SandboxesFolder>> {
        let state = state::found(self.tier, &self.config)?;
        Ok(state.map(|state| SandboxesFolder::new(self.tier, &state)))
    }

    /// Fails with `NotFound` without a state folder.
    fn folder_with(&self, name: &str) -> Result<SandboxesFolder> {
        let none = || SandboxesFolder::new(self.tier, Path::new("")).not_found(name);
        self.folder()?.ok_or_else(none)
    }
}

#[async_trait]
impl Detached for DetachedSandboxes {
    async fn get(&self, name: &str) -> Result<Found> {
        get(&self.folder_with(name)?, name, self.config.egress()).await
    }

    async fn list(&self) -> Result<Vec<SandboxInfo>> {
        self.folder()?.as_ref().map_or(Ok(Vec::new()), list)
    }

    async fn remove(&self, name: &str) -> Result<()> {
        remove(&self.folder_with(name)?, name).await
    }

    fn recorded(&self) -> Result<Vec<RecordedSandbox>> {
        let Some(sandboxes) = self.folder()? else {
            return Ok(Vec::new());
        };
        let records = sandboxes.entries()?.into_iter();
        let records = records.filter_map(|entry| entry.record?.ok());
        let own = records.filter(|record| record.tier == self.tier);
        Ok(own.map(|it| RecordedSandbox::new(it.plan.name)).collect())
    }

    async fn prune(&self) -> Result<Vec<String>> {
        match &self.folder()? {
            Some(sandboxes) => prune(sandboxes).await,
            None => Ok(Vec::new()),
        }
    }
}

async fn get(sandboxes: &SandboxesFolder, name: &str, egress: EgressConfig<'_>) -> Result<Found> {
    let tier = sandboxes.tier.as_str();
    let entry = sandboxes.entry(name)?;
    let entry = entry.ok_or_else(|| sandboxes.not_found(name))?;
    let Some(record) = entry.record else {
        return Err(sandboxes.not_found(name));
    };
    let record = of_tier(sandboxes, record?)?;
    let supervisor = match entry.supervisor {
        SupervisorState::Alive if !record.parts.is_valid_here() => {
            return Err(elsewhere(tier, name));
        }
        SupervisorState::Alive => record.parts.open_supervisor(),
        _ => None,
    };
    let supervisor = supervisor.ok_or_else(|| ended(tier, name))?;
    let isolator = DetachedIsolator::for_existing(sandboxes.clone(), record.clone(), supervisor);
    Ok(Found {
        instance: Box::new(attach(sandboxes, &record, isolator, egress).await?),
        plan: record.plan,
    })
}

fn of_tier(sandboxes: &SandboxesFolder, record: LocalRecord) -> Result<LocalRecord> {
    if record.tier == sandboxes.tier {
        return Ok(record);
    }
    let name = &record.plan.name;
    let fix = format!("`-b {}` finds it", record.tier);
    Err(sandboxes.not_found(name).with_fix(fix))
}

fn elsewhere(tier: &str, name: &str) -> Error {
    let context = format!("the sandbox {name:?} was created in another process namespace");
    Error::new(ErrorKind::Io, "find sandbox", context)
        .on(tier)
        .with_fix("use it from where it was created")
}

/// Connects to the agent as a client.
async fn attach(
    sandboxes: &SandboxesFolder,
    record: &LocalRecord,
    isolator: DetachedIsolator,
    egress: EgressConfig<'_>,
) -> Result<AgentInstance> {
    let tier = sandboxes.tier.as_str();
    let name = &record.plan.name;
    let path = sandboxes.folder_of(name);
    let failed = |cause: std::io::Error| match cause.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => ended(tier, name),
        _ => Error::new(
            ErrorKind::Io,
            "attach to sandbox",
            path.display().to_string(),
        )
        .on(tier)
        .with_source(cause),
    };
    let folder = open_folder(&path).map_err(failed)?;
    // The sandbox's own path may be too long for a socket address.
    let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
    let key = read_private(&short.join(name_of(files::KEY)), 64).map_err(failed)?;
    let key = <[u8; ClientKey::LEN]>::try_from(key).map_err(|_| {
        Error::new(ErrorKind::Io, "attach to sandbox", "its key is no key").on(tier)
    })?;
    let stream = UnixStream::connect(short.join(name_of(files::SOCKET)))
        .await
        .map_err(failed)?;
    AgentInstance::attach(
        stream,
        &ClientKey::new(key),
        AttachedSandbox::from(record).with_egress(&record.plan, egress)?,
        Box::new(isolator),
    )
    .await
}

fn list(sandboxes: &SandboxesFolder) -> Result<Vec<SandboxInfo>> {
    let mut list = Vec::new();
    for entry in sandboxes.entries()? {
        let record = match &entry.record {
            None => continue,
            Some(Ok(record)) => record,
            // It must not hide the others.
            Some(Err(cause)) => {
                tracing::warn!(name = entry.name, %cause, "a sandbox's record");
                list.push(entry.unknown(&sandboxes.tier));
                continue;
            }
        };
        let runs = entry.supervisor == SupervisorState::Alive;
        let state = if runs {
            SandboxState::Running
        } else {
            SandboxState::Ended
        };
        if record.tier == sandboxes.tier {
            list.push(record.info(state));
        }
    }
    Ok(list)
}

async fn remove(sandboxes: &SandboxesFolder, name: &str) -> Result<()> {
    let tier = sandboxes.tier.as_str();
    let deadline = tokio::time::Instant::now() + CHANGE_TIMEOUT;
    loop {
        let entry = sandboxes.entry(name)?;
        let entry = entry.ok_or_else(|| sandboxes.not_found(name))?;
        match (&entry.record, entry.supervisor) {
            (Some(Ok(record)), SupervisorState::Alive) => {
                let record = of_tier(sandboxes, record.clone())?;
                if !record.parts.is_valid_here() {
                    return Err(elsewhere(tier, name));
                }
                if let Some(supervisor) = record.parts.open_supervisor() {
                    return DetachedIsolator::for_existing(sandboxes.clone(), record, supervisor)
                        .end()
                        .await;
                }
                // It is ending right now, or another process removes its leftovers.
            }
            (Some(Ok(record)), SupervisorState::Gone) => {
                of_tier(sandboxes, record.clone())?;
                return clear(tier, entry).await;
            }
            (Some(Err(_)) | None, SupervisorState::Gone) => return clear(tier, entry).await,
            // Another process is creating or removing it.
            (None, SupervisorState::Alive | SupervisorState::Newborn)
            | (Some(_), SupervisorState::Newborn) => {}
            (Some(Err(_)), SupervisorState::Alive) => {
                let record = entry.record.and_then(Result::err);
                return Err(record.unwrap_or_else(|| sandboxes.not_found(name)));
            }
        }
        if tokio::time::Instant::now() >= deadline {
            let context = format!("{name:?} is being made or removed by another process");
            return Err(Error::new(ErrorKind::Io, "remove sandbox", context)
                .on(tier)
                .with_fix("try again"));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn clear(tier: &str, entry: SandboxEntry) -> Result<()> {
    match tokio::task::spawn_blocking(move || leftovers::remove_all(&entry)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(left)) => Err(error::destroy(tier, left)),
        Err(panicked) => Err(error::destroy(tier, panicked.to_string())),
    }
}

async fn prune(sandboxes: &SandboxesFolder) -> Result<Vec<String>> {
    let tier = sandboxes.tier.as_str();
    let mut removed = Vec::new();
    let mut failed = None;
    for entry in sandboxes.entries()? {
        let others = matches!(&entry.record, Some(Ok(record)) if record.tier != tier);
        if entry.supervisor != SupervisorState::Gone || others {
            continue;
        }
        let name = entry.name.clone();
        match clear(tier, entry).await {
            Ok(()) => removed.push(name),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(removed), Err)
}
