//! A project folder that code may change, and a private folder that it tries to reach.

use std::path::{Path, PathBuf};

use crate::canary::Canary;
use crate::context::ProbeContext;
use crate::evidence::HostCheck;
use crate::host_fixture::make_folder;
use crate::probe::ProbeError;

/// The folder of the project that the path names.
pub const DATA: &str = "data";
/// A folder in it.
pub const INNER: &str = "inner";
/// The file in each folder of the project and of the private folder.
pub const FILE: &str = "file";

/// The host folders of a swap. Every user can read and write the private one, so only the sandbox
/// denies access.
#[derive(Debug)]
pub struct SwapFixture {
    /// A folder that the first sandbox may write to.
    pub project: PathBuf,
    /// A folder that no policy names.
    pub private: PathBuf,
    own: [Canary; 2],
    secret: [Canary; 2],
}

/// The destination of a path.
#[derive(Debug)]
pub struct PathDestination<'a> {
    /// The path as the caller names it.
    pub path: PathBuf,
    /// The folder to which the path leads.
    pub folder: PathBuf,
    /// The file in this folder.
    pub file: &'a Canary,
}

impl SwapFixture {
    /// Creates the folders as this process's user, because engines refuse a folder that another
    /// user can rename. `role` distinguishes several fixtures of one probe.
    ///
    /// # Errors
    ///
    /// If a folder cannot be created.
    pub fn build(context: &ProbeContext, role: &str) -> Result<Self, ProbeError> {
        let folder = context
            .outside()?
            .join(format!("{}-{role}", context.token()));
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

    /// The destination of `data`, or `data/inner`, before the swap.
    #[must_use]
    pub fn granted(&self, below: &str) -> PathDestination<'_> {
        let path = below_of(&self.project.join(DATA), below);
        PathDestination {
            folder: path.clone(),
            path,
            file: &self.own[usize::from(!below.is_empty())],
        }
    }

    /// The destination of the same path after `data` has become a link to the private folder.
    #[must_use]
    pub fn private(&self, below: &str) -> PathDestination<'_> {
        PathDestination {
            path: below_of(&self.project.join(DATA), below),
            folder: below_of(&self.private, below),
            file: &self.secret[usize::from(!below.is_empty())],
        }
    }

    /// Checks that the private folder is unchanged.
    #[must_use]
    pub fn host_check(&self) -> HostCheck {
        let watched = format!("the folder {}", self.private.display());
        let entries = |folder: &Path| std::fs::read_dir(folder).map(Iterator::count);
        let alone = matches!(entries(&self.private), Ok(2))
            && matches!(entries(&self.private.join(INNER)), Ok(1));
        let clean = |canary: &Canary| matches!(canary.host_check(), HostCheck::Clean { .. });
        match alone && self.secret.iter().all(clean) {
            true => HostCheck::Clean { watched },
            false => HostCheck::Dirty { watched },
        }
    }
}

fn below_of(folder: &Path, below: &str) -> PathBuf {
    match below {
        "" => folder.to_owned(),
        below => folder.join(below),
    }
}

fn open_to_all(folder: &Path) -> Result<(), ProbeError> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::set_permissions(
        folder,
        std::fs::Permissions::from_mode(0o777),
    )?)
}
