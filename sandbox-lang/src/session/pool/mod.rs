//! Sessions that are started before they are needed, each in a sandbox of its own.

mod settings;
mod stock;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sandbox_core::spi::unique_name;
use sandbox_core::{Error, ErrorKind, Result, SandboxClient, SandboxHandle, SandboxSpec};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

pub use settings::{Exhausted, PoolSettings, PoolStatus};

use super::{Session, SessionRequest, Sessions as _};
use stock::{Answer, Asked, Stock};

/// Sessions that wait in sandboxes of their own, on any backend.
///
/// Each claim gets a sandbox that nobody had before, and the sandbox is removed when the claim ends.
/// None comes back, so no tenant sees what another one left. A session whose sandbox has ended while
/// it waited is not handed over.
///
/// The pool belongs to this process. Dropping it removes what waits; claimed sessions go on.
///
/// ```no_run
/// use sandbox_core::{CapabilityPolicy, SandboxClient, SandboxSpec};
/// use sandbox_lang::{PoolSettings, SessionPool, SessionRequest};
///
/// # async fn example(client: SandboxClient) -> sandbox_core::Result<()> {
/// let request = SessionRequest::new("python").preload(["json"]);
/// let pool = SessionPool::new(&client, &SandboxSpec::new("grader"), &request, PoolSettings::new(3))?;
/// pool.filled().await?;
/// let claimed = pool.claim().await?;
/// claimed.session().run("print(6 * 7)").await?.check()?;
/// claimed.end().await
/// # }
/// ```
///
/// A program without an async runtime uses it through its client:
///
/// ```no_run
/// # use sandbox_core::blocking::BlockingClient;
/// # use sandbox_core::SandboxSpec;
/// # use sandbox_lang::{PoolSettings, SessionPool, SessionRequest};
/// # fn example(client: BlockingClient, request: SessionRequest) -> sandbox_core::Result<()> {
/// let (spec, settings) = (SandboxSpec::new("grader"), PoolSettings::new(3));
/// let pool = async { SessionPool::new(client.as_async(), &spec, &request, settings) };
/// let pool = client.wait(pool)?;
/// let claimed = client.wait(pool.claim())?;
/// client.wait(claimed.session().run("print(6 * 7)"))?.check()?;
/// client.wait(claimed.end())
/// # }
/// ```
pub struct SessionPool {
    asked: mpsc::UnboundedSender<Asked<Ready>>,
    status: watch::Receiver<PoolStatus>,
    settings: PoolSettings,
    maker: Maker,
    task: AbortHandle,
}

/// A sandbox with a session that no code has run in.
struct Ready {
    session: Session,
    sandbox: Arc<SandboxHandle>,
}

/// Starts sessions in new sandboxes.
#[derive(Clone)]
struct Maker {
    client: SandboxClient,
    spec: Arc<SandboxSpec>,
    request: Arc<SessionRequest>,
}

impl Maker {
    async fn make(self) -> Result<Ready> {
        let mut spec = SandboxSpec::clone(&self.spec);
        spec.name = unique_name(&spec.name);
        let sandbox = Arc::new(self.client.create(&spec).await?);
        let session = sandbox
            .session(SessionRequest::clone(&self.request))
            .await?;
        Ok(Ready { session, sandbox })
    }
}

impl fmt::Debug for SessionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionPool")
            .field("status", &*self.status.borrow())
            .finish_non_exhaustive()
    }
}

impl Drop for SessionPool {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl SessionPool {
    /// Begins to start sessions, each in a sandbox with this specification, whose name gets an end
    /// of its own. Does not wait for them: see [`SessionPool::filled`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] for settings that cannot work, and
    /// [`ErrorKind::InvalidSpec`] for a detached sandbox, which would outlive the pool.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn new(
        client: &SandboxClient,
        spec: &SandboxSpec,
        request: &SessionRequest,
        settings: PoolSettings,
    ) -> Result<Self> {
        settings.validate()?;
        if spec.detached {
            let context = "a detached sandbox would outlive its pool";
            return Err(
                Error::new(ErrorKind::InvalidSpec, "start session pool", context)
                    .with_fix("leave `detached` off, and keep the claimed session"),
            );
        }
        let maker = Maker {
            client: client.clone(),
            spec: Arc::new(spec.clone()),
            request: Arc::new(request.clone()),
        };
        let (sender, status) = watch::channel(PoolStatus::default());
        let (asked, requests) = mpsc::unbounded_channel();
        let start = {
            let maker = maker.clone();
            Box::new(move || Box::pin(maker.clone().make()) as _)
        };
        let task = tokio::spawn(Stock::new(settings, start, sender).work(requests));
        Ok(Self {
            asked,
            status,
            settings,
            maker,
            task: task.abort_handle(),
        })
    }

    /// Takes a session that waits, or waits for one that starts.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::PoolExhausted`]: see [`Exhausted`].
    /// - As [`SandboxClient::create`] and [`super::Sessions::session`], if one does not start.
    pub async fn claim(&self) -> Result<PooledSession> {
        let mut tries = 0;
        loop {
            let (sender, answer) = oneshot::channel();
            self.ask(Asked::Claim(sender))?;
            let answer = answer.await.map_err(|_| ended())??;
            let (ready, slot) = match answer {
                Answer::Item(ready) => (ready, Some(Slot(self.asked.clone()))),
                Answer::Temporary => (self.maker.clone().make().await?, None),
            };
            // Dropping it releases its slot and removes its sandbox.
            let claimed = PooledSession::new(ready, slot, self.settings.lifetime);
            match claimed.check().await {
                Ok(()) => return Ok(claimed),
                // All that waited may have ended, such as with their engine.
                Err(error) if tries > self.settings.most => return Err(error),
                Err(error) => tracing::debug!("a session that waited is not handed over: {error}"),
            }
            tries += 1;
        }
    }

    /// The pool's sandboxes now.
    #[must_use]
    pub fn status(&self) -> PoolStatus {
        self.status.borrow().clone()
    }

    /// Waits until as many sessions wait as the settings say.
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
            Some(why) if known.ready < self.settings.ready => Err(Error::new(
                ErrorKind::SetupFailed,
                "fill session pool",
                why.clone(),
            )),
            _ => Ok(()),
        }
    }

    /// Removes the sandboxes that wait and those that start, and waits until they are gone. Claimed
    /// sessions go on.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::kill`], for the first that cannot be removed. All are tried.
    pub async fn close(self) -> Result<()> {
        let (sender, answer) = oneshot::channel();
        self.ask(Asked::Close(sender))?;
        let mut closed = Ok(());
        for ready in answer.await.map_err(|_| ended())? {
            drop(ready.session);
            closed = closed.and(ready.sandbox.kill().await);
        }
        closed
    }

    fn ask(&self, asked: Asked<Ready>) -> Result<()> {
        self.asked.send(asked).map_err(|_| ended())
    }
}

fn ended() -> Error {
    let why = "the runtime that the pool was made in has ended";
    Error::new(ErrorKind::SessionEnded, "use session pool", why)
}

/// Counts a claimed sandbox until it is dropped.
struct Slot(mpsc::UnboundedSender<Asked<Ready>>);

impl Drop for Slot {
    fn drop(&mut self) {
        // The pool may be gone.
        let _ = self.0.send(Asked::Released);
    }
}

/// A session of a [`SessionPool`], in a sandbox of its own. Dropping it removes the sandbox.
pub struct PooledSession {
    session: Session,
    sandbox: Arc<SandboxHandle>,
    /// Ends the sandbox after its lifetime.
    timer: Option<AbortHandle>,
    /// After the sandbox, so that it counts until its removal has begun.
    slot: Option<Slot>,
}

impl fmt::Debug for PooledSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledSession")
            .field("session", &self.session)
            .field("is_temporary", &self.is_temporary())
            .finish_non_exhaustive()
    }
}

impl Drop for PooledSession {
    fn drop(&mut self) {
        if let Some(timer) = &self.timer {
            timer.abort();
        }
    }
}

impl PooledSession {
    fn new(ready: Ready, slot: Option<Slot>, lifetime: Option<Duration>) -> Self {
        let Ready { session, sandbox } = ready;
        let timer = lifetime.map(|lifetime| {
            let sandbox = Arc::downgrade(&sandbox);
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
        Self {
            session,
            sandbox,
            timer,
            slot,
        }
    }

    /// Asks the sandbox, and with it for the session's end, which it has told before it answers.
    async fn check(&self) -> Result<()> {
        match self.sandbox.stat("/").await {
            Ok(_) => {}
            // The backend has no such operation, and has answered.
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            Err(error) => return Err(error),
        }
        match self.session.is_alive().await {
            true => Ok(()),
            false => Err(self.session.ended()),
        }
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The sandbox that the session runs in.
    #[must_use]
    pub fn sandbox(&self) -> &SandboxHandle {
        &self.sandbox
    }

    /// Whether it does not count among the pool's sandboxes: [`Exhausted::Temporary`].
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.slot.is_none()
    }

    /// Removes the sandbox and waits until it is gone. Another claim can use its place then.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::kill`].
    pub async fn end(self) -> Result<()> {
        self.sandbox.kill().await
    }
}
