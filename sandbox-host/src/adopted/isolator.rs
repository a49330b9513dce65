//! A foreign container around our agent.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::{Error, ErrorKind, Result};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Cut;
use crate::Isolator;

/// How long the agent may take to end what runs, and itself, once its stream has ended. Its own bounds sum up to 6 s.
const BOUND: Duration = Duration::from_secs(10);

/// Between two looks whether it has ended.
const PAUSE: Duration = Duration::from_millis(10);

/// What only the engine knows of an agent in a foreign container.
#[async_trait]
pub trait ForeignAgent: Send + Sync + 'static {
    /// The tier's name, for errors.
    fn tier(&self) -> &str;

    /// What the container is called, for errors: "container x".
    fn place(&self) -> String;

    /// Whether the agent still runs. In a container that is gone it does not.
    ///
    /// # Errors
    ///
    /// What the engine refuses.
    async fn runs(&self) -> Result<bool>;

    /// What the agent said last, if anything.
    fn last_words(&self) -> Option<String>;
}

/// A foreign container around an agent: its end is the agent's, and not the container's.
#[derive(Debug)]
pub struct AdoptedIsolator<A> {
    agent: A,
    /// Ends the agent's stream.
    cut: Arc<Mutex<Option<Cut>>>,
    /// Ends the sandbox at its time to live.
    reaper: Option<JoinHandle<()>>,
}

impl<A> AdoptedIsolator<A> {
    /// Takes over an agent, which `cut` ends, and which ends after its time to live.
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
    drop(cut.lock().unwrap_or_else(PoisonError::into_inner).take());
}

#[async_trait]
impl<A: ForeignAgent> Isolator for AdoptedIsolator<A> {
    fn tier(&self) -> &str {
        self.agent.tier()
    }

    async fn destroy(&self) -> Result<()> {
        self.destroy_soon();
        let deadline = Instant::now() + BOUND;
        while self.agent.runs().await? {
            if Instant::now() >= deadline {
                let place = self.agent.place();
                let context = format!("the agent still runs in {place} after {BOUND:?}");
                return Err(Error::new(ErrorKind::Io, "leave container", context)
                    .on(self.agent.tier())
                    .with_fix("end its process (`agent serve --stdio`) in the container"));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    fn destroy_soon(&self) {
        // Without its owner's stream the agent kills what it has started, and ends.
        use_cut(&self.cut);
    }

    async fn oom_kills(&self) -> Option<u64> {
        None
    }

    async fn post_mortem(&self) -> Option<String> {
        let words = self.agent.last_words();
        words.map(|words| format!("the agent's last words: {words}"))
    }
}

impl<A> Drop for AdoptedIsolator<A> {
    fn drop(&mut self) {
        if let Some(reaper) = &self.reaper {
            reaper.abort();
        }
    }
}
