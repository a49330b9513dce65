//! The folder of the host that artifacts are written to.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use sandbox_host::open_output_folder;

use crate::failure::Failure;

/// What is exported where the command line says only where to.
pub const DEFAULT_EXPORT: &str = "/output/**";

/// Where artifacts go where the command line does not say.
const DEFAULT_FOLDER: &str = "artifacts";

/// The folder that artifacts are written to.
#[derive(Debug)]
pub struct OutputFolder {
    path: PathBuf,
    is_new: bool,
}

impl OutputFolder {
    /// Makes the folder and tries whether it can be written: better before the code has run than after. Code of an earlier run may
    /// have put links on the way to it: see [`open_output_folder`].
    pub fn prepare(
        path: Option<&Path>,
        writable: &[PathBuf],
        follow: bool,
    ) -> Result<Self, Failure> {
        let path = path.unwrap_or_else(|| Path::new(DEFAULT_FOLDER));
        let failed =
            |errno: Errno| Failure::io(format!("output folder {}", path.display()), &errno.into());
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
    /// Removes the folder where this run made it and nothing came out.
    fn drop(&mut self) {
        if self.is_new {
            // A folder with artifacts is not empty: that it cannot be removed is the usual case.
            let _ = fs::remove_dir(&self.path);
        }
    }
}
