//! One task at a time: an advisory lock on a file, held until dropped.

use std::fs::{self, File};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::failure::{Context, Result};

/// Held by the one task that changes a folder's state. The kernel frees it when the process ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Creates `folder` where it is missing and locks it, waiting for another holder to finish.
    ///
    /// # Errors
    /// When the folder or its lock file cannot be created or locked.
    pub fn acquire(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).context(|| format!("cannot create {}", folder.display()))?;
        let path = folder.join("lock");
        let file = File::create(&path).context(|| format!("cannot create {}", path.display()))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            eprintln!("waiting for another task that holds {}", path.display());
            flock(&file, FlockOperation::LockExclusive)
                .context(|| format!("cannot lock {}", path.display()))?;
        }
        Ok(Self { _file: file })
    }
}
