//! What an installer writes to its standard error.

use sandbox_core::ByteSize;
use sandbox_core::spi::{Flow, OutputSink, OutputStream};

/// Maximum size of an installer's output.
pub(super) const MAX_OUTPUT: ByteSize = ByteSize::mib(1);

/// Collects the installer's error output and keeps its end.
#[derive(Debug, Default)]
pub(super) struct InstallerErrors {
    pub(super) stderr: Vec<u8>,
}

#[async_trait::async_trait]
impl OutputSink for InstallerErrors {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        if stream == OutputStream::Stdout {
            return Flow::Continue;
        }
        self.stderr.extend_from_slice(bytes);
        let most = MAX_OUTPUT.as_usize();
        if self.stderr.len() > 2 * most {
            self.stderr.drain(..self.stderr.len() - most);
        }
        Flow::Continue
    }
}
