//! Files of the kernel, as the sandbox sees them.

use async_trait::async_trait;
use sandbox_core::spi::{Flow, Instance as _, OutputSink, OutputStream};
use sandbox_core::{ErrorKind, Result, SandboxStats};

use super::AgentInstance;
use crate::stats::stats_in;

/// The most bytes read of such a file. The table of sockets has a line for each address that rules
/// allow.
const MAX_BYTES: usize = 1024 * 1024;

impl AgentInstance {
    /// The content of a file in the sandbox, at most its first MiB; `None` if it cannot be read.
    ///
    /// # Errors
    ///
    /// If the sandbox does not answer.
    pub async fn kernel_file(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let mut text = FileText(Vec::new());
        match self.fetch(path, &mut text).await {
            Ok(()) => Ok(Some(text.0)),
            Err(error) if error.kind() == ErrorKind::Path => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What these files of control groups tell.
    pub(super) async fn stats_inside(&self, paths: &[&'static str]) -> Result<SandboxStats> {
        let mut files = Vec::new();
        for path in paths {
            if let Some(text) = self.kernel_file(path).await? {
                files.push((*path, String::from_utf8_lossy(&text).into_owned()));
            }
        }
        Ok(stats_in(&files))
    }
}

struct FileText(Vec<u8>);

#[async_trait]
impl OutputSink for FileText {
    async fn write(&mut self, _: OutputStream, bytes: &[u8]) -> Flow {
        self.0.extend_from_slice(bytes);
        match self.0.len() {
            0..=MAX_BYTES => Flow::Continue,
            _ => Flow::Stop,
        }
    }
}
