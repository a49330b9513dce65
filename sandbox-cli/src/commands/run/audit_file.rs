//! The file of `--audit`.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sandbox::audit::AuditLog;

use crate::command_error::CommandError;
use crate::print_status;

/// How long a slow file may delay the end of the command.
const LIMIT: Duration = Duration::from_secs(2);

/// A file that records are appended to.
pub struct AuditFile {
    path: PathBuf,
    log: Arc<AuditLog>,
}

impl AuditFile {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    ///
    /// If it cannot be opened for writing.
    pub fn open(path: &Path) -> Result<Self, CommandError> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let log = file.and_then(AuditLog::new).map_err(|error| {
            CommandError::argument(format!("--audit: {}: {error}", path.display()))
        })?;
        Ok(Self {
            path: path.to_owned(),
            log: Arc::new(log),
        })
    }

    /// What writes to it.
    pub fn log(&self) -> Arc<AuditLog> {
        Arc::clone(&self.log)
    }

    /// Waits until everything is written, and warns of what is lost.
    pub fn finish(self) {
        if let Err(loss) = self.log.finish(LIMIT) {
            let path = self.path.display();
            print_status(format_args!("warning: --audit {path}: {loss}"));
        }
    }
}
