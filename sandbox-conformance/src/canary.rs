//! A file of the host that must stay unread or unchanged.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::evidence::Oracle;
use crate::probe::Trouble;
use crate::program;

/// A file with a content that nobody else has.
#[derive(Debug)]
pub struct Canary {
    path: PathBuf,
    content: Vec<u8>,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
struct State {
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
}

impl Canary {
    /// Writes the file with these permission bits.
    ///
    /// # Errors
    ///
    /// When the host's disk refuses.
    pub fn plant(path: &Path, mode: u32) -> Result<Self, Trouble> {
        let content = format!("canary {}\n", crate::grounds::random_name()).into_bytes();
        fs::write(path, &content)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        Ok(Self {
            path: path.to_owned(),
            content,
            state: state(path)?,
        })
    }

    /// Where it is on the host.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the probe program reports after reading it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        program::fingerprint(&self.content)
    }

    /// Its content.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Whether content, mode, owner and time of change are what they were.
    #[must_use]
    pub fn oracle(&self) -> Oracle {
        let watched = format!("content and attributes of {}", self.path.display());
        let same = fs::read(&self.path).is_ok_and(|content| content == self.content)
            && state(&self.path).is_ok_and(|state| state == self.state);
        if same {
            Oracle::Clean { watched }
        } else {
            Oracle::Dirty { watched }
        }
    }
}

fn state(path: &Path) -> Result<State, Trouble> {
    let found = fs::symlink_metadata(path)?;
    Ok(State {
        mode: found.mode(),
        owner: (found.uid(), found.gid()),
        modified: (found.mtime(), found.mtime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_a_changed_file_from_an_untouched_one() {
        let folder = tempfile::tempdir().unwrap();
        let canary = Canary::plant(&folder.path().join("c"), 0o644).unwrap();
        assert!(matches!(canary.oracle(), Oracle::Clean { .. }));
        fs::set_permissions(canary.path(), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(canary.oracle(), Oracle::Dirty { .. }));
        let other = Canary::plant(&folder.path().join("d"), 0o644).unwrap();
        fs::write(other.path(), "x").unwrap();
        assert!(matches!(other.oracle(), Oracle::Dirty { .. }));
    }
}
