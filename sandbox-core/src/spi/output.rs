//! Where the output of executions goes.

use async_trait::async_trait;

/// One of the two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Whether the receiver of output accepts more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// It accepts more.
    Continue,
    /// It accepts no more: kill the execution and report [`crate::Outcome::OutputLimit`].
    Stop,
}

/// Receives output as the program writes it. The program waits for a slow receiver.
#[async_trait]
pub trait OutputSink: Send {
    /// Receives a piece of output.
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow;

    /// The program was started; if that cannot be known, its start was requested.
    ///
    /// Called before the first output, and not at all if the program could not be started.
    async fn started(&mut self) {}
}
