//! The folder of the host that artifacts are written to.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

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
    /// Makes the folder and tries whether it can be written: better before the code has run than after.
    pub fn prepare(path: Option<&Path>) -> Result<Self, Failure> {
        let path = path.unwrap_or_else(|| Path::new(DEFAULT_FOLDER));
        let failed =
            |error: io::Error| Failure::io(format!("output folder {}", path.display()), &error);
        let absolute = std::path::absolute(path).map_err(failed)?;
        let is_new = !absolute.exists();
        fs::create_dir_all(&absolute).map_err(failed)?;
        let trial = absolute.join(format!(".sandbox-{}", std::process::id()));
        File::create_new(&trial).map_err(failed)?;
        fs::remove_file(&trial).map_err(failed)?;
        Ok(Self {
            path: absolute,
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
