//! Names of detached sandboxes that another machine keeps, in this user's state folder.
//!
//! A record only says where to look for a sandbox. A sandbox without one is found by asking.

use std::io::{self, ErrorKind as IoErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use sandbox_core::SandboxSpec;
use sandbox_core::registry::Settings;
use sandbox_core::spi::RecordedSandbox;

use super::{folder, prepare, read_private, user, write_private};

/// Byte limit of a record.
const RECORD_LIMIT: u64 = 64 * 1024;

/// The records of one tier.
#[derive(Debug, Clone)]
pub struct NameRecords {
    tier: &'static str,
    state: PathBuf,
}

impl NameRecords {
    /// The records of a tier in this user's state folder. Reads and writes nothing yet.
    #[must_use]
    pub fn new(tier: &'static str) -> Self {
        Self::in_folder(tier, &folder(None, user()))
    }

    fn in_folder(tier: &'static str, state: &Path) -> Self {
        Self {
            tier,
            state: state.to_owned(),
        }
    }

    fn folder(&self) -> PathBuf {
        self.state.join("names").join(self.tier)
    }

    /// Records a sandbox and the settings that its tier was opened with.
    ///
    /// Logs a failure: the sandbox can be found without its record.
    pub fn add(&self, name: &str, settings: &Settings) {
        if let Err(error) = self.write(name, settings) {
            tracing::debug!(tier = self.tier, name, %error, "cannot record a name");
        }
    }

    fn write(&self, name: &str, settings: &Settings) -> io::Result<()> {
        prepare(self.tier, &self.state, user()).map_err(io::Error::other)?;
        let folder = self.folder();
        let mut private = std::fs::DirBuilder::new();
        private.mode(0o700).recursive(true).create(&folder)?;
        let text = serde_json::to_vec(settings)?;
        // Not a sandbox name, so that nobody reads it before it is complete.
        let new = folder.join(format!(".{name}-{}", std::process::id()));
        let written = write_private(&new, &text);
        written.and_then(|()| std::fs::rename(&new, folder.join(name)))
    }

    /// Forgets a sandbox.
    pub fn remove(&self, name: &str) {
        match std::fs::remove_file(self.folder().join(name)) {
            Err(error) if error.kind() != IoErrorKind::NotFound => {
                tracing::debug!(tier = self.tier, name, %error, "cannot remove a name's record");
            }
            _ => {}
        }
    }

    /// All records. Skips what cannot be read.
    ///
    /// # Errors
    ///
    /// If others may access the state folder.
    pub fn all(&self) -> sandbox_core::Result<Vec<RecordedSandbox>> {
        let folder = self.folder();
        let Ok(entries) = std::fs::read_dir(&folder) else {
            return Ok(Vec::new());
        };
        prepare(self.tier, &self.state, user())?;
        let names = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        let names = names.filter(|name| SandboxSpec::new(name).validate().is_ok());
        let read = |name: String| {
            let text = read_private(&folder.join(&name), RECORD_LIMIT).ok()?;
            let settings = serde_json::from_slice::<Settings>(&text).ok()?;
            Some(RecordedSandbox::new(name).with_settings(settings))
        };
        Ok(names.filter_map(read).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_found_until_it_is_removed() {
        let parent = tempfile::tempdir().expect("a folder");
        let records = NameRecords::in_folder("k8s", &parent.path().join("state"));
        assert_eq!(records.all().expect("none"), []);
        records.remove("lab");
        let settings = Settings::from([("namespace".to_owned(), "team".to_owned())]);
        records.add("lab", &settings);
        records.add("lab", &settings);
        let lab = RecordedSandbox::new("lab").with_settings(settings);
        assert_eq!(records.all().expect("read"), [lab]);
        std::fs::write(records.folder().join("broken"), "{").expect("written");
        assert_eq!(records.all().expect("read").len(), 1);
        let other = NameRecords::in_folder("other", &parent.path().join("state"));
        assert_eq!(other.all().expect("read"), []);
        records.remove("lab");
        assert_eq!(records.all().expect("read"), []);
    }
}
