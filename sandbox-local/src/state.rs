//! The folder with locks and private files of sandboxes.

use std::path::{Path, PathBuf};

use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::state;

use crate::LocalConfig;
use crate::lower::SCRATCH;

/// The path of the state folder, whether or not it exists.
pub(crate) fn folder(config: &LocalConfig, user: u32) -> PathBuf {
    state::folder(config.state_folder.as_deref(), user)
}

/// The state folder of this user, if it exists.
///
/// # Errors
///
/// If another user owns it or may enter it.
pub(crate) fn found(tier: &str, config: &LocalConfig) -> Result<Option<PathBuf>> {
    state::found(tier, config.state_folder.as_deref())
}

/// Creates the state folder if missing. Fails if another user owns it or may enter it.
pub(crate) fn prepare(tier: &str, folder: &Path, user: u32) -> Result<()> {
    state::prepare(tier, folder, user)?;
    // Each sandbox mounts a tmpfs on this folder in its own mount namespace.
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
