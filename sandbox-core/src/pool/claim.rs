//! A pool of anything that is in a sandbox of its own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use super::settings::{PoolSettings, PoolStatus};
use super::stock::{Asked, ClaimAnswer, Slot, Starter, Stock};
use crate::{Error, ErrorKind, Result, SandboxHandle, SandboxSpec};

/// What a [`Pool`] starts and hands over. Dropping it removes its sandbox.
#[async_trait]
pub trait PoolItem: Send + Sync + 'static {
    /// Its sandbox, which belongs to it alone.
    fn sandbox(&self) -> &Arc<SandboxHandle>;

    /// Checks what else it needs, once the sandbox has answered.
    ///
    /// # Errors
    ///
    /// If it must not be handed over, such as after its end.
    async fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// Keeps items ready, and hands each over once.
pub struct Pool<T> {
    asked: mpsc::UnboundedSender<Asked<T>>,
    status: watch::Receiver<PoolStatus>,
    settings: PoolSettings,
    start: Starter<T>,
    task: AbortHandle,
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("status", &*self.status.borrow())
            .finish_non_exhaustive()
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<T: PoolItem> Pool<T> {
    /// Begins to start items in sandboxes with this specification.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] for settings that cannot work, and
    /// [`ErrorKind::InvalidSpec`] for a detached sandbox, which would outlive the pool.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn new(spec: &SandboxSpec, settings: PoolSettings, start: Starter<T>) -> Result<Self> {
        settings.validate()?;
        if spec.detached {
            let context = "a detached sandbox would outlive its pool";
            return Err(Error::new(ErrorKind::InvalidSpec, "start pool", context)
                .with_fix("leave `detached` off, and keep what was claimed"));
        }
        let (sender, status) = watch::channel(PoolStatus::default());
        let (asked, requests) = mpsc::unbounded_channel();
        let stock = Stock::new(settings, Arc::clone(&start), sender, asked.downgrade());
        let task = tokio::spawn(stock.work(requests));
        Ok(Self {
            asked,
            status,
            settings,
            start,
            task: task.abort_handle(),
        })
    }

    /// Takes an item that waits, or waits for one that starts.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::PoolExhausted`]: see [`super::Exhausted`].
    /// - As the start of an item, if it fails.
    pub async fn claim(&self) -> Result<Claimed<T>> {
        let mut tries = 0;
        loop {
            let (sender, answer) = oneshot::channel();
            self.ask(Asked::Claim(sender))?;
            let answer = answer.await.map_err(|_| ended())??;
            let (item, slot) = match answer {
                ClaimAnswer::Item(item, slot) => (item, Some(slot)),
                ClaimAnswer::Temporary => ((self.start)().await?, None),
            };
            // Dropping it releases its slot and removes its sandbox.
            let mut claimed = Claimed::new(item, slot, self.settings.lifetime);
            match claimed.check().await {
                Ok(()) => {
                    claimed.slot.iter_mut().for_each(Slot::taken);
                    return Ok(claimed);
                }
                // All that waited may have ended, such as with their engine.
                Err(error) if tries > self.settings.most => return Err(error),
                Err(error) => tracing::debug!("an item that waited is not handed over: {error}"),
            }
            tries += 1;
        }
    }

    /// The pool's sandboxes now.
    #[must_use]
    pub fn status(&self) -> PoolStatus {
        self.status.borrow().clone()
    }

    /// Waits until as many items wait as the settings say.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SetupFailed`] if one does not start. The pool tries again.
    pub async fn filled(&self) -> Result<()> {
        let mut status = self.status.clone();
        let is_known =
            |status: &PoolStatus| status.ready >= self.settings.ready || status.failed.is_some();
        let known = status.wait_for(is_known).await.map_err(|_| ended())?;
        match &known.failed {
            Some(why) if known.ready < self.settings.ready => {
                Err(Error::new(ErrorKind::SetupFailed, "fill pool", why.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Removes the sandboxes that wait and those that start, and waits until they are gone.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::kill`], for the first that cannot be removed. All are tried.
    pub async fn close(self) -> Result<()> {
        let (sender, answer) = oneshot::channel();
        self.ask(Asked::Close(sender))?;
        let mut closed = Ok(());
        for item in answer.await.map_err(|_| ended())? {
            closed = closed.and(item.sandbox().kill().await);
        }
        closed
    }

    fn ask(&self, asked: Asked<T>) -> Result<()> {
        self.asked.send(asked).map_err(|_| ended())
    }
}

fn ended() -> Error {
    let why = "the runtime that the pool was made in has ended";
    Error::new(ErrorKind::SandboxEnded, "use pool", why)
}

/// An item of a [`Pool`], until it is dropped or its lifetime has passed.
pub struct Claimed<T> {
    item: T,
    /// Ends the sandbox after its lifetime.
    timer: Option<AbortHandle>,
    /// After the item, so that it counts until its removal has begun.
    slot: Option<Slot<T>>,
}

impl<T> Drop for Claimed<T> {
    fn drop(&mut self) {
        if let Some(timer) = &self.timer {
            timer.abort();
        }
    }
}

impl<T: PoolItem> Claimed<T> {
    fn new(item: T, slot: Option<Slot<T>>, lifetime: Option<Duration>) -> Self {
        let timer = lifetime.map(|lifetime| {
            let sandbox = Arc::downgrade(item.sandbox());
            let end = async move {
                tokio::time::sleep(lifetime).await;
                if let Some(sandbox) = sandbox.upgrade()
                    && let Err(error) = sandbox.kill().await
                {
                    tracing::warn!(
                        "a sandbox of a pool is not removed after its lifetime: {error}"
                    );
                }
            };
            tokio::spawn(end).abort_handle()
        });
        Self { item, timer, slot }
    }

    async fn check(&self) -> Result<()> {
        // Agents answer this themselves. For other questions they start a process.
        match self.item.sandbox().logs(Some(1)).await {
            Ok(_) => {}
            // The backend has no such operation, and has answered.
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            Err(error) => return Err(error),
        }
        self.item.check().await
    }

    /// What was claimed.
    #[must_use]
    pub fn item(&self) -> &T {
        &self.item
    }

    /// Whether it does not count among the pool's sandboxes.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.slot.is_none()
    }
}
