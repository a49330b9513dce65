//! Sandboxes that outlive their creator: found by their container's name and entered with a key in
//! this user's state folder.
//!
//! The engine removes the container when its agent ends. Until the creator has reconnected as a
//! later client, the agent ends with its first stream. So a killed creator leaves either nothing
//! that runs or a complete sandbox. The agent ends the sandbox after its lifetime; if it fails to,
//! the next client of the engine does.

mod hand_over;
mod hidden_paths;
mod record_store;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use sandbox_core::spi::Found;
use sandbox_core::{Error, ErrorKind, Result, SandboxInfo, SandboxState};
use sandbox_host::egress::EgressConfig;
use sandbox_host::state::{ended, not_found};
use sandbox_host::{Owner, StderrTail};

pub(crate) use hand_over::NewDetached;
pub(crate) use hidden_paths::{mounts_host_folders, paths_showing, state_folder_paths};
pub(crate) use record_store::{ContainerRecord, RecordGuard, RecordStore};

use crate::Tier;
use crate::engine::{EngineConnection, ListedContainer, inspect};
use crate::isolator::{ContainerIsolator, RunningContainer};
use crate::label_origin;
use crate::labels;
use crate::reconnect;
use crate::removal;
use crate::sweep;
use crate::volume::{self, AgentVolume};

/// How long an engine may take to remove an ended container before the sandbox is reported as
/// ended.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(3);

/// The detached sandboxes of a tier on an engine.
#[derive(Debug)]
pub(crate) struct DetachedRegistry<'a> {
    pub(crate) tier: Tier,
    pub(crate) engine: &'a EngineConnection,
    /// This user's records, if any.
    pub(crate) store: Option<RecordStore>,
    pub(crate) egress: EgressConfig<'a>,
}

impl DetachedRegistry<'_> {
    /// Attaches to a running sandbox.
    pub(crate) async fn get(&self, name: &str) -> Result<Found> {
        let (tier, engine) = (self.tier, self.engine);
        let Some(container) = self.find(name).await? else {
            self.remove_records_of(name).await?;
            return Err(not_found(tier.name, name));
        };
        if !container.runs {
            return Err(self.ended_or_not_found(&container.id, name).await?);
        }
        let record = match &self.store {
            Some(store) => store.record(&container.id)?.map(|record| (store, record)),
            None => None,
        };
        let (store, record) = record.ok_or_else(|| self.key_not_found(name))?;
        let key = store.key(&container.id)?;
        let isolator = ContainerIsolator::new(RunningContainer {
            tier,
            engine: engine.clone(),
            id: container.id.clone(),
            guard: None,
            stderr_tail: StderrTail::default(),
            no_network: record.parts.no_network,
            lifetime: Some(record.remaining()),
            store: Some(store.clone()),
            source: None,
            image: record.parts.image.clone(),
        });
        match reconnect::attach(&isolator, &record, &key, self.egress).await {
            Ok(instance) => Ok(Found {
                plan: record.plan,
                instance: Box::new(instance),
            }),
            // It ended after it was found.
            Err(error) if error.kind() == ErrorKind::SandboxEnded => {
                Err(self.ended_or_not_found(&container.id, name).await?)
            }
            Err(error) => Err(error),
        }
    }

    /// The error for an ended sandbox. Waits briefly for its container, which the engine is usually
    /// removing.
    async fn ended_or_not_found(&self, container: &str, name: &str) -> Result<Error> {
        let gone = removal::wait_until_gone(&self.engine.client, container);
        let Ok(Ok(())) = tokio::time::timeout(REMOVAL_TIMEOUT, gone).await else {
            return Ok(ended(self.tier.name, name));
        };
        self.remove_records_of(name).await?;
        Ok(not_found(self.tier.name, name))
    }

    /// Lists this user's sandboxes.
    pub(crate) async fn list(&self) -> Result<Vec<SandboxInfo>> {
        let Some(store) = &self.store else {
            return Ok(Vec::new());
        };
        // Read the records before the list: a sandbox created meanwhile is in neither, one that
        // ends is only in the records.
        let records = store.records(&self.engine.endpoint.to_string())?;
        let running = self.running().await?;
        let mut list = Vec::new();
        for record in records {
            match running.get(&record.parts.container) {
                Some(true) => list.push(record.info(SandboxState::Running)),
                Some(false) => list.push(record.info(SandboxState::Ended)),
                // The container is gone; only the record was left.
                None => self.remove_record(store, &record).await?,
            }
        }
        list.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(list)
    }

    /// Ends a sandbox in any state and removes its record.
    pub(crate) async fn remove(&self, name: &str) -> Result<()> {
        let Some(container) = self.find(name).await? else {
            self.remove_records_of(name).await?;
            return Err(not_found(self.tier.name, name));
        };
        let record = match &self.store {
            Some(store) => store.record(&container.id)?.map(|record| (store, record)),
            None => None,
        };
        // Without its record it cannot be used, only removed.
        if record.is_none() && !container.is_current_users {
            return Err(self.key_not_found(name));
        }
        removal::remove(self.tier, &self.engine.client, &container.id).await?;
        match record {
            Some((store, record)) => self.remove_record(store, &record).await,
            None => Ok(()),
        }
    }

    /// Removes the record of a removed container, and the image that belongs to it.
    async fn remove_record(&self, store: &RecordStore, record: &ContainerRecord) -> Result<()> {
        let container = &record.parts.container;
        store.remove(container)?;
        match &record.parts.image {
            Some(image) => {
                let client = &self.engine.client;
                removal::remove_image_of(self.tier, client, image, container).await
            }
            None => Ok(()),
        }
    }

    /// Removes leftovers of ended sandboxes and unused agent volumes. Returns the sandboxes' names.
    pub(crate) async fn prune(&self, agent: &AgentVolume) -> Result<Vec<String>> {
        let swept = sweep::sweep(self.tier, self.engine).await;
        let mut names = swept.names.into_iter().collect::<BTreeSet<_>>();
        let mut failed = swept.failed;
        if let Some(store) = &self.store {
            store.remove_unfinished();
            let records = store.records(&self.engine.endpoint.to_string())?;
            let running = self.running().await?;
            for record in records {
                if !running.contains_key(&record.parts.container) {
                    self.remove_record(store, &record).await?;
                    names.insert(record.plan.name);
                }
            }
        }
        if let Err(error) = volume::remove_unused(self.tier, self.engine, agent).await {
            failed = failed.or(Some(error));
        }
        failed.map_or(Ok(names.into_iter().collect()), Err)
    }

    /// Whether this user has the record of the sandbox in this container.
    fn has_record(&self, container: &str) -> Result<bool> {
        match &self.store {
            Some(store) => Ok(store.record(container)?.is_some()),
            None => Ok(false),
        }
    }

    /// The container of a detached sandbox of this tier: the one that a record names, or else the
    /// one that the engine lists.
    async fn find(&self, name: &str) -> Result<Option<DetachedContainer>> {
        match self.recorded_container(name).await? {
            Some(container) => Ok(Some(container)),
            None => self.container(name).await,
        }
    }

    /// The running container that a record of this user names. The record only saves the engine a
    /// search: the container itself must have the labels of this sandbox.
    async fn recorded_container(&self, name: &str) -> Result<Option<DetachedContainer>> {
        let Some(store) = &self.store else {
            return Ok(None);
        };
        let records = store.records(&self.engine.endpoint.to_string())?;
        for record in records.iter().filter(|record| record.plan.name == name) {
            let id = &record.parts.container;
            // Whatever is wrong with it, the search finds it or says why not.
            let Ok(inspected) = inspect(&self.engine.client, id).await else {
                continue;
            };
            let state = inspected.state.unwrap_or_default();
            let labels = inspected.config.and_then(|config| config.labels);
            let container = ListedContainer {
                id: inspected.id.unwrap_or_default(),
                created: None,
                labels: labels.unwrap_or_default(),
                runs: state.running == Some(true) || state.paused == Some(true),
            };
            if container.id == *id && container.runs && self.is_sandbox(&container, name) {
                return Ok(Some(DetachedContainer::new(container)));
            }
        }
        Ok(None)
    }

    /// Whether a container has the labels of the detached sandbox `name` of this tier.
    fn is_sandbox(&self, container: &ListedContainer, name: &str) -> bool {
        let is = |label, value: &str| container.labels.get(label).is_some_and(|it| it == value);
        is(labels::NAME, name)
            && is(labels::TIER, self.tier.name)
            && container.labels.contains_key(labels::DETACHED)
    }

    /// The container of a detached sandbox of this tier, in the engine's list.
    async fn container(&self, name: &str) -> Result<Option<DetachedContainer>> {
        let filters = [
            format!("{}={name}", labels::NAME),
            labels::DETACHED.to_owned(),
        ];
        let mut other_tier = None;
        for container in self.engine.list(self.tier, &filters).await? {
            match container.labels.get(labels::TIER) {
                Some(tier) if tier == self.tier.name => {
                    let is_sandbox = self.has_record(&container.id)?
                        || !label_origin::has_inherited_labels(
                            self.tier,
                            self.engine,
                            &container.id,
                        )
                        .await?;
                    if is_sandbox {
                        return Ok(Some(DetachedContainer::new(container)));
                    }
                }
                Some(tier) => other_tier = Some(tier.clone()),
                None => {}
            }
        }
        match other_tier {
            None => Ok(None),
            Some(tier) => {
                let fix = format!("`-b {tier}` finds it");
                Err(not_found(self.tier.name, name).with_fix(fix))
            }
        }
    }

    /// All users' detached containers of this tier, by id, and whether they run.
    async fn running(&self) -> Result<HashMap<String, bool>> {
        let filters = [
            format!("{}={}", labels::TIER, self.tier),
            labels::DETACHED.to_owned(),
        ];
        let containers = self.engine.list(self.tier, &filters).await?;
        let running = containers
            .into_iter()
            .map(|container| (container.id, container.runs));
        Ok(running.collect())
    }

    /// Removes the records of sandboxes with this name; they have no container.
    async fn remove_records_of(&self, name: &str) -> Result<()> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let records = store.records(&self.engine.endpoint.to_string())?;
        for record in records.iter().filter(|record| record.plan.name == name) {
            self.remove_record(store, record).await?;
        }
        Ok(())
    }

    fn key_not_found(&self, name: &str) -> Error {
        let context = format!("the key of the sandbox {name:?} is not in this user's state folder");
        Error::new(ErrorKind::SandboxNotFound, "find sandbox", context)
            .on(self.tier)
            .with_fix("use it as the user, and with the state folder, that created it")
    }
}

/// A container of a detached sandbox.
struct DetachedContainer {
    id: String,
    runs: bool,
    is_current_users: bool,
}

impl DetachedContainer {
    fn new(listed: ListedContainer) -> Self {
        let owner = listed.labels.get(labels::OWNER);
        Self {
            is_current_users: owner
                .and_then(|owner| Owner::from_label(owner))
                .is_some_and(|owner| owner.is_of_current_user()),
            id: listed.id,
            runs: listed.runs,
        }
    }
}
