//! The operations on a running sandbox that differ between backends.

use async_trait::async_trait;
use sandbox_core::spi::unsupported;
use sandbox_core::{Error, ErrorKind, ImageInfo, ImageReference, Result, SandboxStats};

use crate::Counters;

/// The isolated environment around a running agent. [`crate::AgentInstance`] does everything else
/// over the agent's stream.
#[async_trait]
pub trait Isolator: Send + Sync + 'static {
    /// The tier's name, for errors.
    fn tier(&self) -> &str;

    /// Ends all processes of the sandbox and removes what it left on the host.
    ///
    /// # Behavior
    ///
    /// - Returns once no process of the sandbox runs.
    /// - Idempotent.
    ///
    /// # Errors
    ///
    /// What could not be ended or removed.
    async fn destroy(&self) -> Result<()>;

    /// Destroys a sandbox whose creation failed. Returns the error, with the error of
    /// [`Isolator::destroy`] as its source.
    ///
    /// Does nothing if the engine does not answer: the isolator retries when dropped.
    async fn destroy_after(&self, failure: Error) -> Error {
        if failure.kind() == ErrorKind::SandboxUnavailable {
            return failure;
        }
        match self.destroy().await {
            Ok(()) => failure,
            Err(error) => failure.with_source(error),
        }
    }

    /// As [`Isolator::destroy`], for [`Drop`]: starts the removal and returns. Must not panic and
    /// must not need a runtime.
    fn destroy_soon(&self);

    /// How many processes of the sandbox the kernel has killed for memory; `None` if the host
    /// cannot count them. Called before and after each execution, so it must cost at most a few
    /// system calls.
    ///
    /// On `None` the agent's count is used ([`crate::Sandbox::counting_memory_kills`]). Code that
    /// controls the agent can falsify it, but only affects how its own end is reported.
    async fn oom_kills(&self) -> Option<u64>;

    /// What the kernel has denied the sandbox's code so far.
    async fn counters(&self) -> Counters {
        Counters::default()
    }

    /// What the kernel counted of all processes of the sandbox.
    async fn stats(&self) -> SandboxStats {
        SandboxStats::default()
    }

    /// Paths in the sandbox where it sees files of its control groups, of either version, if the
    /// host does not see them. The agent then reads them in place of [`Isolator::stats`]. Code that
    /// controls the agent can falsify the values.
    fn stats_inside(&self) -> &'static [&'static str] {
        &[]
    }

    /// Creates an image of the sandbox's files: see [`sandbox_core::spi::Instance::commit`].
    async fn commit(&self, tag: &ImageReference) -> Result<ImageInfo> {
        let _ = tag;
        Err(unsupported("commit sandbox", self.tier()))
    }

    /// Why the stream ended, if the isolator knows ("the container was killed for memory").
    async fn post_mortem(&self) -> Option<String>;
}
