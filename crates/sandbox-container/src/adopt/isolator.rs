//! A foreign container around our agent: its end is the agent's, and not the container's.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::Isolator;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::cut::Cut;
use crate::Tier;
use crate::engine::Engine;
use crate::error::{Operation, engine_error, has_status};
use crate::stream::LastWords;

/// How long the agent may take to end what runs, and itself, once its stream has ended. Its own bounds sum up to 6 s.
const BOUND: Duration = Duration::from_secs(10);

/// How often the engine is asked whether it has ended.
const POLL: Duration = Duration::from_millis(10);

/// A foreign container around an agent.
#[derive(Debug)]
pub(super) struct AdoptedIsolator {
    tier: Tier,
    engine: Engine,
    container: String,
    /// The engine's execution of the agent.
    execution: String,
    last_words: LastWords,
    /// Ends the agent's stream.
    cut: std::sync::Arc<Mutex<Option<Cut>>>,
    /// Ends the sandbox at its time to live.
    reaper: Option<JoinHandle<()>>,
}

impl AdoptedIsolator {
    pub(super) fn new(
        tier: Tier,
        engine: Engine,
        container: String,
        execution: String,
        last_words: LastWords,
        cut: Cut,
        lifetime: Option<Duration>,
    ) -> Self {
        let cut = std::sync::Arc::new(Mutex::new(Some(cut)));
        let reaper = lifetime.map(|lifetime| {
            let cut = std::sync::Arc::clone(&cut);
            tokio::spawn(async move {
                tokio::time::sleep(lifetime).await;
                drop(cut.lock().unwrap_or_else(PoisonError::into_inner).take());
            })
        });
        Self {
            tier,
            engine,
            container,
            execution,
            last_words,
            cut,
            reaper,
        }
    }
}

#[async_trait]
impl Isolator for AdoptedIsolator {
    fn tier(&self) -> &str {
        self.tier.name
    }

    async fn destroy(&self) -> Result<()> {
        self.destroy_soon();
        let deadline = Instant::now() + BOUND;
        loop {
            match self.engine.client.inspect_exec(&self.execution).await {
                Ok(execution) if execution.running == Some(false) => return Ok(()),
                // The container is gone, and everything in it.
                Err(error) if has_status(&error, 404) => return Ok(()),
                Err(error) => return Err(engine_error(self.tier, Operation::Adopt, error)),
                Ok(_) if Instant::now() >= deadline => {
                    let context = format!(
                        "the agent still runs in container {} after {BOUND:?}",
                        self.container
                    );
                    return Err(Error::new(ErrorKind::Io, "leave container", context)
                        .on(self.tier)
                        .with_fix("end its process (`agent serve --stdio`) in the container"));
                }
                Ok(_) => tokio::time::sleep(POLL).await,
            }
        }
    }

    fn destroy_soon(&self) {
        // Without its owner's stream the agent kills what it has started, and ends.
        drop(
            self.cut
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }

    async fn oom_kills(&self) -> Option<u64> {
        None
    }

    async fn post_mortem(&self) -> Option<String> {
        let words = self.last_words.text();
        words.map(|words| format!("the agent's last words: {words}"))
    }
}

impl Drop for AdoptedIsolator {
    fn drop(&mut self) {
        if let Some(reaper) = &self.reaper {
            reaper.abort();
        }
    }
}
