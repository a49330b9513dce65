//! The folder of the host that artifacts are written to.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use sandbox_host::open_output_folder;

use crate::command_error::CommandError;

/// Exported if `--out` is given without `--artifact`.
pub const DEFAULT_EXPORT: &str = "/output/**";

/// The folder in the sandbox whose files that exports.
pub const EXPORTED: &str = "/output";

/// The default of `--out`.
const DEFAULT_FOLDER: &str = "artifacts";

/// The folder that artifacts are written to.
#[derive(Debug)]
pub struct OutputFolder {
    path: PathBuf,
    is_new: bool,
}

impl OutputFolder {
    /// Creates the folder and checks that it is writable before the code runs. Code of an earlier
    /// run may have placed links in its path: see [`open_output_folder`].
    pub fn prepare(
        path: Option<&Path>,
        writable: &[PathBuf],
        follow: bool,
    ) -> Result<Self, CommandError> {
        let path = path.unwrap_or_else(|| Path::new(DEFAULT_FOLDER));
        let failed = |errno: Errno| {
            CommandError::io(format!("output folder {}", path.display()), &errno.into())
        };
        let is_new = path.symlink_metadata().is_err();
        let opened = open_output_folder(path, writable, follow);
        let opened = opened.map_err(|error| error.into_error("open output folder", path))?;
        let trial = format!(".sandbox-{}", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made = openat(&opened.object, &trial, flags, Mode::from(0o600));
        made.map_err(failed)?;
        unlinkat(&opened.object, &trial, AtFlags::empty()).map_err(failed)?;
        Ok(Self {
            path: opened.path,
            is_new,
        })
    }

    /// Its absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OutputFolder {
    /// Removes the folder if this run created it and it is empty.
    fn drop(&mut self) {
        if self.is_new {
            // Fails as intended if the folder contains artifacts.
            let _ = fs::remove_dir(&self.path);
        }
    }
}
