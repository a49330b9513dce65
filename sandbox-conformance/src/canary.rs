//! A host file that must stay unread or unchanged.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::evidence::HostCheck;
use crate::probe::ProbeError;
use crate::program;

/// A host file with unique content.
#[derive(Debug)]
pub struct Canary {
    path: PathBuf,
    content: Vec<u8>,
    state: FileState,
}

#[derive(Debug, PartialEq, Eq)]
struct FileState {
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
}

impl Canary {
    /// Writes the file with these permission bits.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn plant(path: &Path, mode: u32) -> Result<Self, ProbeError> {
        let content = format!("canary {}\n", crate::host_fixture::random_name()).into_bytes();
        fs::write(path, &content)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        Ok(Self {
            path: path.to_owned(),
            content,
            state: state(path)?,
        })
    }

    /// The path on the host.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The value that the probe program reports after reading the file.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        program::fingerprint(&self.content)
    }

    /// Its content.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Checks that content, mode, owner and modification time are unchanged.
    #[must_use]
    pub fn host_check(&self) -> HostCheck {
        let watched = format!("content and attributes of {}", self.path.display());
        let same = fs::read(&self.path).is_ok_and(|content| content == self.content)
            && state(&self.path).is_ok_and(|state| state == self.state);
        if same {
            HostCheck::Clean { watched }
        } else {
            HostCheck::Dirty { watched }
        }
    }
}

fn state(path: &Path) -> Result<FileState, ProbeError> {
    let found = fs::symlink_metadata(path)?;
    Ok(FileState {
        mode: found.mode(),
        owner: (found.uid(), found.gid()),
        modified: (found.mtime(), found.mtime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_canary_is_dirty() {
        let folder = tempfile::tempdir().unwrap();
        let canary = Canary::plant(&folder.path().join("c"), 0o644).unwrap();
        assert!(matches!(canary.host_check(), HostCheck::Clean { .. }));
        fs::set_permissions(canary.path(), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(canary.host_check(), HostCheck::Dirty { .. }));
        let other = Canary::plant(&folder.path().join("d"), 0o644).unwrap();
        fs::write(other.path(), "x").unwrap();
        assert!(matches!(other.host_check(), HostCheck::Dirty { .. }));
    }
}
