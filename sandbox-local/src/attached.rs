//! Records of attached sandboxes, so that other processes can list them.
//!
//! Each is a file in the folder `attached` of the state folder. The file's name contains the owner,
//! so a sweep recognizes the records of killed owners.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sandbox_core::{Error, ErrorKind, Plan, Result, SandboxInfo, SandboxOwner, SandboxState};
use sandbox_host::state::{read_private, write_private};
use sandbox_host::{Owner, OwnerStatus};
use serde::{Deserialize, Serialize};

use crate::LocalConfig;
use crate::owned_name::{leftovers_in, unique_name};
use crate::state;

/// The most bytes of a record that are read. Longer ones are reported as invalid.
const MAX_BYTES: u64 = 1024 * 1024;

/// The record of a running attached sandbox. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct AttachedRecord(PathBuf);

#[derive(Debug, Serialize, Deserialize)]
struct RecordContent {
    name: String,
    tier: String,
    created: SystemTime,
    lifetime: Option<Duration>,
    labels: BTreeMap<String, String>,
}

impl AttachedRecord {
    /// Records a sandbox of this process. The state folder must exist.
    pub(crate) fn create(tier: &str, state: &Path, plan: &Plan) -> Result<Self> {
        let content = RecordContent {
            name: plan.name.clone(),
            tier: tier.to_owned(),
            created: SystemTime::now(),
            lifetime: plan.lifetime,
            labels: plan.labels.clone(),
        };
        let folder = folder(state);
        let path = folder.join(unique_name());
        let written = serde_json::to_vec(&content)
            .map_err(io::Error::from)
            .and_then(|content| match write_private(&path, &content) {
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                    std::fs::create_dir_all(&folder)?;
                    write_private(&path, &content)
                }
                written => written,
            });
        match written {
            Ok(()) => Ok(Self(path)),
            Err(cause) => Err(failed("record sandbox", tier, &path, cause)),
        }
    }
}

impl Drop for AttachedRecord {
    fn drop(&mut self) {
        if let Err(cause) = std::fs::remove_file(&self.0)
            && cause.kind() != io::ErrorKind::NotFound
        {
            let path = self.0.display();
            tracing::warn!(%path, %cause, "the record of a sandbox could not be removed");
        }
    }
}

/// Lists the attached sandboxes of the running processes of this process's user.
///
/// # Errors
///
/// If another user owns the state folder or may enter it, or if the records cannot be read.
pub(crate) fn list_found(tier: &str, config: &LocalConfig) -> Result<Vec<SandboxInfo>> {
    match state::found(tier, config)? {
        Some(state) => list(tier, &state),
        None => Ok(Vec::new()),
    }
}

fn list(tier: &str, state: &Path) -> Result<Vec<SandboxInfo>> {
    let folder = folder(state);
    let entries = match std::fs::read_dir(&folder) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|cause| failed("list sandboxes", tier, &folder, cause))?,
    };
    let mut list = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|cause| failed("list sandboxes", tier, &folder, cause))?;
        let name = entry.file_name();
        let Some(owner) = name.to_str().and_then(Owner::from_file_name) else {
            continue;
        };
        if owner.status() == OwnerStatus::Gone {
            continue;
        }
        let path = entry.path();
        let content = match read_private(&path, MAX_BYTES) {
            // The sandbox has ended meanwhile.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            content => content.map_err(|cause| failed("list sandboxes", tier, &path, cause))?,
        };
        // Its owner is writing it.
        if content.is_empty() {
            continue;
        }
        let content = serde_json::from_slice::<RecordContent>(&content)
            .map_err(|cause| failed("list sandboxes", tier, &path, cause.into()))?;
        if content.tier == tier {
            list.push(content.info(&owner));
        }
    }
    list.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(list)
}

/// Removes the records of owners that are gone. Returns what could not be removed, and why.
pub(crate) fn remove_leftovers(state: &Path) -> Vec<String> {
    let removed = leftovers_in(&folder(state)).map(|path| (std::fs::remove_file(&path), path));
    let failed = removed.filter_map(|(removed, path)| match removed {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            Some(format!("{}: {cause}", path.display()))
        }
        _ => None,
    });
    failed.collect()
}

impl RecordContent {
    fn info(self, owner: &Owner) -> SandboxInfo {
        let state = SandboxState::Running;
        let mut info = SandboxInfo::new(self.name, self.tier, state, self.created);
        let expires = self.lifetime;
        info.expires = expires.and_then(|lifetime| self.created.checked_add(lifetime));
        info.labels = self.labels;
        info.owner = Some(match owner.status() {
            OwnerStatus::Unknown => SandboxOwner::labeled(owner.to_label()),
            _ => SandboxOwner::process(owner.pid()),
        });
        info
    }
}

fn folder(state: &Path) -> PathBuf {
    state.join("attached")
}

fn failed(operation: &'static str, tier: &str, path: &Path, cause: io::Error) -> Error {
    let context = path.display().to_string();
    let error = Error::new(ErrorKind::Io, operation, context).on(tier);
    error.with_source(cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_core::{CapabilityPolicy, SandboxSpec};

    fn plan(name: &str) -> Plan {
        let spec = SandboxSpec::new(name).label("team", "a");
        Plan::resolve(&spec, &CapabilityPolicy::new()).expect("a plan")
    }

    #[test]
    fn record_is_listed_until_it_is_dropped() {
        let state = tempfile::tempdir().expect("a folder");
        assert_eq!(list("local", state.path()).expect("listed"), []);
        let record = AttachedRecord::create("local", state.path(), &plan("lab")).expect("recorded");
        let listed = list("local", state.path()).expect("listed");
        assert_eq!(listed.len(), 1);
        assert_eq!((&*listed[0].name, &*listed[0].labels["team"]), ("lab", "a"));
        assert_eq!(listed[0].owner, Some(SandboxOwner::this_process()));
        assert_eq!(list("local_unsafe", state.path()).expect("listed"), []);
        drop(record);
        assert_eq!(list("local", state.path()).expect("listed"), []);
    }

    #[test]
    fn records_of_killed_owners_are_not_listed_and_are_removed() {
        let state = tempfile::tempdir().expect("a folder");
        let record = AttachedRecord::create("local", state.path(), &plan("lab")).expect("recorded");
        let stale = folder(state.path()).join(Owner::ended_for_tests().file_name(0));
        std::fs::copy(&record.0, &stale).expect("copied");
        assert_eq!(list("local", state.path()).expect("listed").len(), 1);
        assert_eq!(remove_leftovers(state.path()), [] as [String; 0]);
        assert!(!stale.exists() && record.0.exists());
    }
}
