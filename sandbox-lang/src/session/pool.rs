//! Sessions that are started before they are needed, each in a sandbox of its own.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use sandbox_core::spi::{Claimed, Pool, PoolItem, unique_name};
use sandbox_core::{PoolSettings, PoolStatus, Result, SandboxClient, SandboxHandle, SandboxSpec};

use super::{Session, SessionRequest, Sessions as _};

/// Sessions that wait in sandboxes of their own, on any backend.
///
/// Each claim gets a sandbox that nobody had before, and the sandbox is removed when the claim ends.
/// None comes back, so no tenant sees what another one left. A session whose sandbox has ended while
/// it waited is not handed over.
///
/// The pool belongs to this process. Dropping it removes what waits; claimed sessions go on.
///
/// ```no_run
/// use sandbox_core::{CapabilityPolicy, PoolSettings, SandboxClient, SandboxSpec};
/// use sandbox_lang::{SessionPool, SessionRequest};
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
/// # use sandbox_core::{PoolSettings, SandboxSpec};
/// # use sandbox_lang::{SessionPool, SessionRequest};
/// # fn example(client: BlockingClient, request: SessionRequest) -> sandbox_core::Result<()> {
/// let (spec, settings) = (SandboxSpec::new("grader"), PoolSettings::new(3));
/// let pool = async { SessionPool::new(client.as_async(), &spec, &request, settings) };
/// let pool = client.wait(pool)?;
/// let claimed = client.wait(pool.claim())?;
/// client.wait(claimed.session().run("print(6 * 7)"))?.check()?;
/// client.wait(claimed.end())
/// # }
/// ```
#[derive(Debug)]
pub struct SessionPool(Pool<Ready>);

/// A sandbox with a session that no code has run in.
struct Ready {
    session: Session,
    sandbox: Arc<SandboxHandle>,
}

impl Ready {
    async fn start(
        client: SandboxClient,
        spec: Arc<SandboxSpec>,
        request: Arc<SessionRequest>,
    ) -> Result<Self> {
        let mut spec = SandboxSpec::clone(&spec);
        spec.name = unique_name(&spec.name);
        let sandbox = Arc::new(client.create(&spec).await?);
        let session = sandbox.session(SessionRequest::clone(&request)).await?;
        Ok(Self { session, sandbox })
    }
}

#[async_trait]
impl PoolItem for Ready {
    fn sandbox(&self) -> &Arc<SandboxHandle> {
        &self.sandbox
    }

    /// A session's end is told before the sandbox answers.
    async fn check(&self) -> Result<()> {
        match self.session.is_alive().await {
            true => Ok(()),
            false => Err(self.session.ended()),
        }
    }
}

impl SessionPool {
    /// Begins to start sessions, each in a sandbox with this specification, whose name gets an end
    /// of its own. Does not wait for them: see [`SessionPool::filled`].
    ///
    /// # Errors
    ///
    /// As [`sandbox_core::SandboxPool::new`].
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
        let (client, template) = (client.clone(), Arc::new(spec.clone()));
        let request = Arc::new(request.clone());
        let start = move || {
            let (client, spec) = (client.clone(), Arc::clone(&template));
            Box::pin(Ready::start(client, spec, Arc::clone(&request))) as _
        };
        Pool::new(spec, settings, Arc::new(start)).map(Self)
    }

    /// Takes a session that waits, or waits for one that starts.
    ///
    /// # Errors
    ///
    /// - [`sandbox_core::ErrorKind::PoolExhausted`]: see [`sandbox_core::Exhausted`].
    /// - As [`SandboxClient::create`] and [`super::Sessions::session`], if one does not start.
    pub async fn claim(&self) -> Result<PooledSession> {
        self.0.claim().await.map(PooledSession)
    }

    /// The pool's sandboxes now.
    #[must_use]
    pub fn status(&self) -> PoolStatus {
        self.0.status()
    }

    /// Waits until as many sessions wait as the settings say.
    ///
    /// # Errors
    ///
    /// [`sandbox_core::ErrorKind::SetupFailed`] if one does not start. The pool tries again.
    pub async fn filled(&self) -> Result<()> {
        self.0.filled().await
    }

    /// Removes the sandboxes that wait and those that start, and waits until they are gone. Claimed
    /// sessions go on.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::kill`], for the first that cannot be removed. All are tried.
    pub async fn close(self) -> Result<()> {
        self.0.close().await
    }
}

/// A session of a [`SessionPool`], in a sandbox of its own. Dropping it removes the sandbox.
pub struct PooledSession(Claimed<Ready>);

impl fmt::Debug for PooledSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledSession")
            .field("session", self.session())
            .field("is_temporary", &self.is_temporary())
            .finish()
    }
}

impl PooledSession {
    /// The session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.0.item().session
    }

    /// The sandbox that the session runs in.
    #[must_use]
    pub fn sandbox(&self) -> &SandboxHandle {
        &self.0.item().sandbox
    }

    /// Whether it does not count among the pool's sandboxes: [`sandbox_core::Exhausted::Temporary`].
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.0.is_temporary()
    }

    /// Removes the sandbox and waits until it is gone. Another claim can use its place then.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::kill`].
    pub async fn end(self) -> Result<()> {
        self.sandbox().kill().await
    }
}
