//! Operations of the caller on a sandbox's files.

use std::path::Path;

use serde::Serialize;

use super::{AuditEvent, Auditor};
use crate::Result;

/// What a caller did with files of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileOperation {
    /// Wrote a file.
    Write,
    /// Read a file.
    Read,
    /// Made a folder.
    MakeFolder,
    /// Removed a file or a folder.
    Remove,
    /// Copied a file or a folder of the host into the sandbox.
    CopyIn,
    /// Copied a file or a folder out of the sandbox.
    CopyOut,
    /// Copied the files that the policy's patterns match out of the sandbox.
    Export,
}

/// Tells of an operation when it ends, also if its future is dropped.
pub(crate) struct AuditedFiles<'a> {
    auditor: &'a Auditor,
    operation: FileOperation,
    paths: &'a [&'a str],
    host: Option<&'a Path>,
    is_told: bool,
}

impl<'a> AuditedFiles<'a> {
    pub(crate) fn start(
        auditor: &'a Auditor,
        operation: FileOperation,
        paths: &'a [&'a str],
        host: Option<&'a Path>,
    ) -> Self {
        Self {
            auditor,
            operation,
            paths,
            host,
            is_told: false,
        }
    }

    pub(crate) fn end<T>(mut self, result: Result<T>) -> Result<T> {
        self.is_told = true;
        self.tell(result.as_ref().err().map(ToString::to_string));
        result
    }

    fn tell(&self, error: Option<String>) {
        self.auditor.tell(|| AuditEvent::Files {
            operation: self.operation,
            paths: self.paths.iter().map(|path| (*path).to_owned()).collect(),
            host: self.host.map(|path| path.to_string_lossy().into_owned()),
            error,
        });
    }
}

impl Drop for AuditedFiles<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            self.tell(Some("the caller gave it up".into()));
        }
    }
}
