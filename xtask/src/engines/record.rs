//! What `up` remembers of a daemon that it started, so that `down` can find it again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::process::Identity;
use crate::failure::{Context, Failure, Result};

/// A daemon that `up` started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The daemon's process.
    pub process: Identity,
    /// The socket it serves.
    pub socket: PathBuf,
}

/// The file that holds one engine's [`Record`].
#[derive(Debug, Clone)]
pub struct RecordFile {
    path: PathBuf,
}

impl RecordFile {
    /// The record of the engine called `engine` in `folder`.
    pub fn new(folder: &Path, engine: &str) -> Self {
        Self {
            path: folder.join(format!("{engine}.json")),
        }
    }

    /// The record, or `None` where there is none.
    ///
    /// # Errors
    /// When the file cannot be read or is no record.
    pub fn read(&self) -> Result<Option<Record>> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failure("read", &error)),
        };
        serde_json::from_str(&text).map(Some).map_err(|error| {
            self.failure("read", &error)
                .with_fix(format!("remove {}", self.path.display()))
        })
    }

    /// Writes `record` in one step, so that no reader ever sees half of it.
    ///
    /// # Errors
    /// When the folder or the file cannot be written.
    pub fn write(&self, record: &Record) -> Result<()> {
        let text = serde_json::to_string_pretty(record)
            .context(|| format!("cannot describe process {}", record.process.pid))?;
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).map_err(|error| self.failure("write", &error))?;
        }
        let partial = self.path.with_extension("json.partial");
        fs::write(&partial, text)
            .and_then(|()| fs::rename(&partial, &self.path))
            .map_err(|error| self.failure("write", &error))
    }

    /// Removes the record, if there is one.
    ///
    /// # Errors
    /// When it is there and cannot be removed.
    pub fn remove(&self) -> Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.failure("remove", &error))
            }
            _ => Ok(()),
        }
    }

    fn failure(&self, doing: &str, error: &dyn std::fmt::Display) -> Failure {
        Failure::new(format!(
            "cannot {doing} the record {}: {error}",
            self.path.display()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let process = Identity {
            pid: 42,
            start_ticks: u64::MAX,
            boot_id: "b".into(),
            program: "dockerd".into(),
        };
        Record {
            process,
            socket: "/run/docker.sock".into(),
        }
    }

    #[test]
    fn a_record_survives_the_way_to_disk_and_back() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let file = RecordFile::new(&folder.path().join("new"), "docker");
        assert_eq!(file.read(), Ok(None));
        assert_eq!(file.write(&record()), Ok(()));
        assert_eq!(file.read(), Ok(Some(record())));
        assert_eq!(file.remove(), Ok(()));
        assert_eq!(file.read(), Ok(None));
        assert_eq!(file.remove(), Ok(()), "removing nothing is no error");
    }

    #[test]
    fn what_is_no_record_is_an_error_and_says_where() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("docker.json");
        let whole = serde_json::to_string(&record()).expect("json");
        for text in [
            "",
            "{}",
            "42",
            &whole[..whole.len() / 2],
            &whole.replace("pid", "id"),
        ] {
            fs::write(&path, text).expect("write");
            let failure = RecordFile::new(folder.path(), "docker")
                .read()
                .expect_err(text);
            assert!(failure.to_string().contains("docker.json"), "{failure}");
        }
    }
}
