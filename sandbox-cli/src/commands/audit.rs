//! `--audit`.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use sandbox::SandboxClient;
use sandbox::audit::{Audit as _, AuditLog, AuditRecord, AuditTracing};

use crate::command_error::CommandError;
use crate::print_status;

/// How long a slow file may delay the end of the command.
const LIMIT: Duration = Duration::from_secs(2);

/// Where to record what happens in a sandbox.
#[derive(Debug, Clone, Default, Args)]
pub struct AuditOption {
    /// Append what happens in the sandbox to FILE, one JSON object a line: decisions, executions,
    /// denials, connections, copies. A record that cannot be written is reported, and stops nothing
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
}

impl AuditOption {
    /// The path of the file for another process, if one was given.
    ///
    /// # Errors
    ///
    /// If the current folder is gone.
    pub fn absolute(&self) -> std::io::Result<Option<PathBuf>> {
        self.audit.as_deref().map(std::path::absolute).transpose()
    }

    /// Opens the file, if one was given.
    ///
    /// # Errors
    ///
    /// If it cannot be opened for writing.
    pub fn open(&self) -> Result<Option<AuditFile>, CommandError> {
        self.audit.as_deref().map(AuditFile::open).transpose()
    }
}

/// The client, with records to the file, and with `--verbose` to standard error.
pub fn audited(client: SandboxClient, file: Option<&AuditFile>) -> SandboxClient {
    // Most of them have this level.
    let is_shown = tracing::enabled!(target: "sandbox::audit", tracing::Level::INFO);
    match (file, is_shown) {
        (Some(file), false) => client.audited(file.log.clone()),
        (Some(file), true) => {
            let log = Arc::clone(&file.log);
            client.audited(Arc::new(move |record: AuditRecord| {
                AuditTracing.record(record.clone());
                log.record(record);
            }))
        }
        (None, true) => client.audited(Arc::new(AuditTracing)),
        (None, false) => client,
    }
}

/// A file that records are appended to. Dropping it waits until everything is written, and warns of
/// what is lost.
pub struct AuditFile {
    path: PathBuf,
    log: Arc<AuditLog>,
}

impl AuditFile {
    fn open(path: &Path) -> Result<Self, CommandError> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let log = file.and_then(AuditLog::new).map_err(|error| {
            CommandError::argument(format!("--audit: {}: {error}", path.display()))
        })?;
        Ok(Self {
            path: path.to_owned(),
            log: Arc::new(log),
        })
    }
}

impl Drop for AuditFile {
    fn drop(&mut self) {
        if let Err(loss) = self.log.finish(LIMIT) {
            let path = self.path.display();
            print_status(format_args!("warning: --audit {path}: {loss}"));
        }
    }
}
