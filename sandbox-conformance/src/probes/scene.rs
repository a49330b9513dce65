//! A project that code may rearrange, and a private folder to which it would like to be led.

use std::path::{Path, PathBuf};

use crate::canary::Canary;
use crate::evidence::Oracle;
use crate::grounds::make_folder;
use crate::probe::Trouble;
use crate::stage::Stage;

/// The folder of the project that a later path names.
pub const DATA: &str = "data";
/// A folder in it.
pub const INNER: &str = "inner";
/// The file in both folders, of the project and of the private folder.
pub const FILE: &str = "file";

/// Folders of the host. The private ones let every user read and write: what keeps a sandbox out must be the sandbox.
#[derive(Debug)]
pub struct Scene {
    /// A folder that a first sandbox may write to.
    pub project: PathBuf,
    /// A folder that no policy names.
    pub private: PathBuf,
    own: [Canary; 2],
    secret: [Canary; 2],
}

/// Where a path leads: what a sandbox that was given it would read, and where its files would land.
#[derive(Debug)]
pub struct Goal<'a> {
    /// The path as the caller names it.
    pub path: PathBuf,
    /// The folder to which it leads.
    pub folder: PathBuf,
    /// The file that is in this folder.
    pub file: &'a Canary,
}

impl Scene {
    /// Builds one, whose folders belong to this process's user: engines refuse to mount a folder that another user can rename.
    /// `role` sets it apart from the others of the same probe.
    ///
    /// # Errors
    ///
    /// When the host's disk refuses.
    pub fn build(stage: &Stage, role: &str) -> Result<Self, Trouble> {
        let folder = stage.outside()?.join(format!("{}-{role}", stage.token()));
        let (project, private) = (folder.join("project"), folder.join("private"));
        let data = project.join(DATA);
        for folder in [&data, &data.join(INNER)] {
            make_folder(folder)?;
        }
        make_folder(&private.join(INNER))?;
        for folder in [&private, &private.join(INNER)] {
            open_to_all(folder)?;
        }
        let plant = |folder: &Path| Canary::plant(&folder.join(FILE), 0o644);
        Ok(Self {
            own: [plant(&data)?, plant(&data.join(INNER))?],
            secret: [plant(&private)?, plant(&private.join(INNER))?],
            project,
            private,
        })
    }

    /// Where `data`, or `data/inner`, leads as long as nobody has changed it.
    #[must_use]
    pub fn granted(&self, below: &str) -> Goal<'_> {
        let path = below_of(&self.project.join(DATA), below);
        Goal {
            folder: path.clone(),
            path,
            file: &self.own[usize::from(!below.is_empty())],
        }
    }

    /// Where the same path leads once `data` is a link to the private folder.
    #[must_use]
    pub fn private(&self, below: &str) -> Goal<'_> {
        Goal {
            path: below_of(&self.project.join(DATA), below),
            folder: below_of(&self.private, below),
            file: &self.secret[usize::from(!below.is_empty())],
        }
    }

    /// What the private folder looks like now.
    #[must_use]
    pub fn oracle(&self) -> Oracle {
        let watched = format!("the folder {}", self.private.display());
        let entries = |folder: &Path| std::fs::read_dir(folder).map(Iterator::count);
        let alone = matches!(entries(&self.private), Ok(2))
            && matches!(entries(&self.private.join(INNER)), Ok(1));
        let clean = |canary: &Canary| matches!(canary.oracle(), Oracle::Clean { .. });
        match alone && self.secret.iter().all(clean) {
            true => Oracle::Clean { watched },
            false => Oracle::Dirty { watched },
        }
    }
}

fn below_of(folder: &Path, below: &str) -> PathBuf {
    match below {
        "" => folder.to_owned(),
        below => folder.join(below),
    }
}

fn open_to_all(folder: &Path) -> Result<(), Trouble> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::set_permissions(
        folder,
        std::fs::Permissions::from_mode(0o777),
    )?)
}
