//! The folder for locks and private files of sandboxes.

use std::path::{Path, PathBuf};

use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::state;

use crate::LocalConfig;
use crate::lower::SCRATCH;

/// Where the state folder is, whether it exists or not.
pub(crate) fn folder(config: &LocalConfig, user: u32) -> PathBuf {
    state::folder(config.state_folder.as_deref(), user)
}

/// The state folder of this user, where there is one.
///
/// # Errors
///
/// Where what is there is not ours alone.
pub(crate) fn found(tier: &str, config: &LocalConfig) -> Result<Option<PathBuf>> {
    state::found(tier, config.state_folder.as_deref())
}

/// Makes the state folder where it is missing, and refuses one that is not ours alone.
pub(crate) fn prepare(tier: &str, folder: &Path, user: u32) -> Result<()> {
    state::prepare(tier, folder, user)?;
    // On which each sandbox mounts something, where only it sees it.
    let scratch = folder.join(SCRATCH);
    match std::fs::create_dir(&scratch) {
        Err(cause) if cause.kind() != std::io::ErrorKind::AlreadyExists => {
            let context = format!("{}: {cause}", scratch.display());
            let error = Error::new(ErrorKind::SetupFailed, "prepare the state folder", context);
            Err(error.on(tier).with_fix("set another state folder"))
        }
        _ => Ok(()),
    }
}
