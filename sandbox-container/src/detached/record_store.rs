//! This user's records of detached sandboxes. Each is a folder named by the container's id, with a
//! record and the key. Only this user may enter, and the key is stored nowhere else.

use std::io::ErrorKind as IoErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::{ClientKey, state};
use serde::{Deserialize, Serialize};

use crate::Tier;

/// Byte limit of a record, far above any real one.
const RECORD_LIMIT: u64 = 4 * 1024 * 1024;

/// Name prefix of a folder that is not complete yet.
const UNFINISHED_PREFIX: &str = ".new-";

/// Age after which an incomplete folder is a leftover: folders are filled at once.
const UNFINISHED_AGE: Duration = Duration::from_secs(60);

/// The files in a folder.
const RECORD: &str = "sandbox.json";
const KEY: &str = "key";

/// The content of `sandbox.json`.
pub(crate) type ContainerRecord = state::DetachedRecord<ContainerLocation>;

/// Where a detached sandbox runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContainerLocation {
    /// The engine's address.
    pub(crate) endpoint: String,
    /// The container's id.
    pub(crate) container: String,
    /// The user that the agent runs as, in the engine's notation.
    pub(crate) user: String,
    /// Whether code has no network except loopback.
    pub(crate) no_network: bool,
    /// The image to remove with the sandbox, if its creator pulled it and the specification says
    /// so.
    #[serde(default)]
    pub(crate) image: Option<String>,
}

/// The folder that holds one folder per sandbox.
#[derive(Debug, Clone)]
pub(crate) struct RecordStore {
    tier: Tier,
    folder: PathBuf,
}

impl RecordStore {
    /// Opens this user's folder, creating it if needed.
    ///
    /// # Errors
    ///
    /// The state folder is not private to this user, or cannot be created.
    pub(crate) fn prepare(tier: Tier, configured: Option<&Path>) -> Result<Self> {
        let state = state::folder(configured, state::user());
        state::prepare(tier.name, &state, state::user())?;
        let folder = state.join("containers");
        let store = Self { tier, folder };
        match make_private(&store.folder) {
            Err(cause) if cause.kind() != IoErrorKind::AlreadyExists => {
                Err(store.failed(&store.folder, cause))
            }
            _ => Ok(store),
        }
    }

    /// Opens this user's folder; `None` if it does not exist.
    pub(crate) fn open_existing(tier: Tier, configured: Option<&Path>) -> Result<Option<Self>> {
        let state = state::found(tier.name, configured)?;
        let folder = state.map(|state| state.join("containers"));
        let folder = folder.filter(|folder| folder.is_dir());
        Ok(folder.map(|folder| Self { tier, folder }))
    }

    /// Writes a record. It is removed again unless [`RecordGuard::persist`] is called.
    pub(crate) fn write(&self, record: &ContainerRecord, key: &ClientKey) -> Result<RecordGuard> {
        let id = &record.parts.container;
        let text = record.encode()?;
        let new = self.folder.join(format!("{UNFINISHED_PREFIX}{id}"));
        let entry = RecordGuard {
            folder: self.folder.join(id),
            is_persistent: false,
        };
        let written = make_private(&new)
            .and_then(|()| state::write_private(&new.join(RECORD), &text))
            .and_then(|()| state::write_private(&new.join(KEY), key.as_bytes()))
            .and_then(|()| std::fs::rename(&new, &entry.folder));
        match written {
            Ok(()) => Ok(entry),
            Err(cause) => {
                let error = self.failed(&new, cause);
                // A later prune removes the rest.
                let _ = std::fs::remove_dir_all(&new);
                Err(error)
            }
        }
    }

    /// The record of a container; `None` if this user has none.
    pub(crate) fn record(&self, container: &str) -> Result<Option<ContainerRecord>> {
        if !is_id(container) {
            return Ok(None);
        }
        let path = self.folder.join(container).join(RECORD);
        match state::read_private(&path, RECORD_LIMIT) {
            Ok(text) => ContainerRecord::decode(self.tier.name, &path, &text).map(Some),
            Err(cause) if cause.kind() == IoErrorKind::NotFound => Ok(None),
            Err(cause) => Err(self.failed(&path, cause)),
        }
    }

    /// The key of a container that has a record.
    pub(crate) fn key(&self, container: &str) -> Result<ClientKey> {
        let path = self.folder.join(container).join(KEY);
        let key = state::read_private(&path, 64).map_err(|cause| self.failed(&path, cause))?;
        let key = <[u8; ClientKey::LEN]>::try_from(key).map_err(|_| {
            let context = format!("{} has no valid key", path.display());
            Error::new(ErrorKind::Io, "attach to sandbox", context).on(self.tier)
        })?;
        Ok(ClientKey::new(key))
    }

    /// The records of all containers of this tier on an engine. Logs and skips unreadable ones.
    pub(crate) fn records(&self, endpoint: &str) -> Result<Vec<ContainerRecord>> {
        let mut records = self.records_of_tier()?;
        records.retain(|record| record.parts.endpoint == endpoint);
        Ok(records)
    }

    /// The records of all containers of this tier on any engine. Logs and skips unreadable ones.
    pub(crate) fn records_of_tier(&self) -> Result<Vec<ContainerRecord>> {
        let entries = match std::fs::read_dir(&self.folder) {
            Err(cause) if cause.kind() == IoErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|cause| self.failed(&self.folder, cause))?,
        };
        let mut records = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|cause| self.failed(&self.folder, cause))?;
            let id = entry.file_name().into_string().unwrap_or_default();
            match self.record(&id) {
                Ok(Some(record)) => {
                    if record.tier == self.tier.name {
                        records.push(record);
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(tier = %self.tier, %error, "cannot read a record, so skipped it")
                }
            }
        }
        Ok(records)
    }

    /// Removes the record of a container, if there is one.
    pub(crate) fn remove(&self, container: &str) -> Result<()> {
        if !is_id(container) {
            return Ok(());
        }
        let folder = self.folder.join(container);
        match std::fs::remove_dir_all(&folder) {
            Err(cause) if cause.kind() != IoErrorKind::NotFound => Err(self.failed(&folder, cause)),
            _ => Ok(()),
        }
    }

    /// Removes incomplete folders of killed creators.
    pub(crate) fn remove_unfinished(&self) {
        for entry in std::fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .flatten()
        {
            let is_new = entry
                .file_name()
                .to_string_lossy()
                .starts_with(UNFINISHED_PREFIX);
            let age = entry
                .metadata()
                .ok()
                .and_then(|metadata| metadata.modified().ok()?.elapsed().ok());
            if is_new
                && age.is_some_and(|age| age > UNFINISHED_AGE)
                && let Err(cause) = std::fs::remove_dir_all(entry.path())
            {
                tracing::warn!(tier = %self.tier, folder = %entry.path().display(), %cause, "cannot remove an incomplete record folder");
            }
        }
    }

    fn failed(&self, path: &Path, cause: std::io::Error) -> Error {
        let context = path.display().to_string();
        Error::new(ErrorKind::Io, "keep sandbox", context)
            .on(self.tier)
            .with_source(cause)
    }
}

/// The record of a sandbox that is being created. Removes it when dropped.
#[derive(Debug)]
pub(crate) struct RecordGuard {
    folder: PathBuf,
    is_persistent: bool,
}

impl RecordGuard {
    /// Keeps the record.
    pub(crate) fn persist(mut self) {
        self.is_persistent = true;
    }
}

impl Drop for RecordGuard {
    fn drop(&mut self) {
        if !self.is_persistent
            && let Err(cause) = std::fs::remove_dir_all(&self.folder)
        {
            // The next client removes it: its container is gone.
            tracing::debug!(folder = %self.folder.display(), %cause, "cannot remove a record");
        }
    }
}

fn make_private(folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).create(folder)
}

/// Whether a text is a container id, and so safe as a path component.
fn is_id(text: &str) -> bool {
    text.len() >= 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    use sandbox_core::{CapabilityPolicy, EnforcementReport, SandboxSpec};

    use super::*;
    use crate::family::samples::TIER;
    use crate::lowering::samples::plan;

    const ID: &str = "0123456789abcdef";

    fn record() -> ContainerRecord {
        let plan = plan(
            &SandboxSpec::new("kept").detached(true),
            &CapabilityPolicy::new(),
        );
        let location = ContainerLocation {
            endpoint: "unix:///x".into(),
            container: ID.into(),
            user: "0:0".into(),
            no_network: true,
            image: None,
        };
        let report = EnforcementReport::nothing("a test");
        ContainerRecord::new(TIER.name, &plan, BTreeMap::new(), report, location)
    }

    #[test]
    fn record_is_private_and_found_again() {
        let state = tempfile::tempdir().expect("a folder");
        let folder = state.path().join("state");
        assert!(
            RecordStore::open_existing(TIER, Some(&folder))
                .expect("none")
                .is_none()
        );
        let store = RecordStore::prepare(TIER, Some(&folder)).expect("made");
        let key = ClientKey::new([7; 32]);
        store.write(&record(), &key).expect("written").persist();
        let store = RecordStore::open_existing(TIER, Some(&folder))
            .expect("found")
            .expect("there");
        assert_eq!(store.record(ID).expect("read"), Some(record()));
        assert_eq!(store.key(ID).expect("read"), key);
        for (path, mode) in [
            ("containers", 0o700),
            ("containers/0123456789abcdef", 0o700),
            ("containers/0123456789abcdef/key", 0o600),
            ("containers/0123456789abcdef/sandbox.json", 0o600),
        ] {
            let found = std::fs::metadata(folder.join(path))
                .expect(path)
                .permissions()
                .mode();
            assert_eq!(found & 0o777, mode, "{path}");
        }
        assert_eq!(store.records("unix:///x").expect("read").len(), 1);
        assert_eq!(store.records("unix:///y").expect("read").len(), 0);
        store.remove(ID).expect("removed");
        store.remove(ID).expect("gone");
        assert_eq!(store.record(ID).expect("read"), None);
        assert_eq!(store.record("../containers").expect("no id"), None);
    }

    #[test]
    fn dropped_record_is_removed() {
        let state = tempfile::tempdir().expect("a folder");
        let folder = state.path().join("state");
        let store = RecordStore::prepare(TIER, Some(&folder)).expect("made");
        drop(
            store
                .write(&record(), &ClientKey::new([7; 32]))
                .expect("written"),
        );
        assert_eq!(std::fs::read_dir(&store.folder).expect("there").count(), 0);
    }
}
