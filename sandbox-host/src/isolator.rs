//! What only a backend can do for a sandbox that runs.

use async_trait::async_trait;
use sandbox_core::spi::unsupported;
use sandbox_core::{ImageInfo, ImageReference, Result};

use crate::Counters;

/// The isolated place around an agent, once it runs. [`crate::AgentInstance`] does the rest over the agent's stream.
#[async_trait]
pub trait Isolator: Send + Sync + 'static {
    /// The tier's name, for errors.
    fn tier(&self) -> &str;

    /// Ends every process of the sandbox and removes what it left on the host.
    ///
    /// # Behavior
    ///
    /// - Returns once no process of the sandbox runs any more.
    /// - Harmless when it has been called before.
    ///
    /// # Errors
    ///
    /// Says what could not be ended or removed.
    async fn destroy(&self) -> Result<()>;

    /// The same without waiting, for [`Drop`]: starts the end and returns. Must not panic, and must not need a runtime.
    fn destroy_soon(&self);

    /// How many processes of the sandbox the kernel has killed for memory so far; `None` where the host does not know. Asked before and
    /// after every execution: it must cost no more than a few system calls.
    ///
    /// Where the host does not know, what the agent counts is taken ([`crate::Sandbox::counting_memory_kills`]). Whoever owns the agent can
    /// say what he likes there, and misleads about nothing but the end of his own code.
    async fn oom_kills(&self) -> Option<u64>;

    /// What the kernel has refused the sandbox's code so far.
    async fn counters(&self) -> Counters {
        Counters::default()
    }

    /// Makes an image of the place's files: see [`sandbox_core::spi::Instance::commit`].
    async fn commit(&self, tag: &ImageReference) -> Result<ImageInfo> {
        let _ = tag;
        Err(unsupported("commit sandbox", self.tier()))
    }

    /// Why the stream ended, where the isolator knows more ("the container was killed for memory").
    async fn post_mortem(&self) -> Option<String>;
}
