//! The isolator of an agent in a foreign container.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::{Error, ErrorKind, Result};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Cut;
use crate::agent_timeouts::KILL;
use crate::{Isolator, StderrTail, lock};

/// The pause between two checks whether the agent has ended.
const PAUSE: Duration = Duration::from_millis(10);

/// The operations on an agent in a foreign container that differ between engines.
#[async_trait]
pub trait ForeignAgent: Send + Sync + 'static {
    /// The tier's name, for errors.
    fn tier(&self) -> &str;

    /// The container's name in errors: "container x".
    fn place(&self) -> String;

    /// Whether the agent still runs; `false` if the container is gone.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    async fn runs(&self) -> Result<bool>;

    /// The tail of the agent's standard error.
    fn stderr_tail(&self) -> &StderrTail;
}

/// An agent in a foreign container. Destroying the sandbox ends the agent, not the container.
#[derive(Debug)]
pub struct AdoptedIsolator<A> {
    agent: A,
    /// Closes the agent's stream.
    cut: Arc<Mutex<Option<Cut>>>,
    /// The task that ends the sandbox at its time to live.
    reaper: Option<JoinHandle<()>>,
}

impl<A> AdoptedIsolator<A> {
    /// Takes ownership of an agent. `cut` ends it, also after its time to live.
    pub fn new(agent: A, cut: Cut, lifetime: Option<Duration>) -> Self {
        let cut = Arc::new(Mutex::new(Some(cut)));
        let reaper = lifetime.map(|lifetime| {
            let cut = Arc::clone(&cut);
            tokio::spawn(async move {
                tokio::time::sleep(lifetime).await;
                use_cut(&cut);
            })
        });
        Self { agent, cut, reaper }
    }
}

fn use_cut(cut: &Mutex<Option<Cut>>) {
    drop(lock(cut).take());
}

#[async_trait]
impl<A: ForeignAgent> Isolator for AdoptedIsolator<A> {
    fn tier(&self) -> &str {
        self.agent.tier()
    }

    async fn destroy(&self) -> Result<()> {
        self.destroy_soon();
        let deadline = Instant::now() + KILL;
        while self.agent.runs().await? {
            if Instant::now() >= deadline {
                let place = self.agent.place();
                let context = format!("the agent still runs in {place} after {KILL:?}");
                return Err(Error::new(ErrorKind::Io, "leave container", context)
                    .on(self.agent.tier())
                    .with_fix("end its process (`agent serve --stdio`) in the container"));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    fn destroy_soon(&self) {
        // Without its owner's stream, the agent kills its processes and ends.
        use_cut(&self.cut);
    }

    async fn oom_kills(&self) -> Option<u64> {
        None
    }

    async fn post_mortem(&self) -> Option<String> {
        self.agent.stderr_tail().explanation()
    }
}

impl<A> Drop for AdoptedIsolator<A> {
    fn drop(&mut self) {
        if let Some(reaper) = &self.reaper {
            reaper.abort();
        }
    }
}
