//! How an instance comes about: as the first client of an agent, or as a later one.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use sandbox_agent::protocol::{Key, Welcome};
use sandbox_core::Result;
use tokio::io::{AsyncRead, AsyncWrite};

use super::AgentInstance;
use crate::connection::{Cause, Connection};
use crate::greeting::Greeting;
use crate::link::{self, Reach, Unreachable};
use crate::sandbox::{AttachedSandbox, Sandbox};
use crate::{Counters, Isolator};

/// Ends the sandbox unless the agent has answered.
struct Unconnected(Option<Arc<dyn Isolator>>);

impl Drop for Unconnected {
    fn drop(&mut self) {
        if let Some(isolator) = &self.0 {
            isolator.destroy_soon();
        }
    }
}

impl AgentInstance {
    /// Greets the agent at the other end of `stream` and takes over the sandbox.
    ///
    /// # Behavior
    ///
    /// - Dropping the instance ends the sandbox; so does an agent that breaks the protocol, stops answering or vanishes.
    /// - With [`Sandbox::detached`] dropping it only closes the stream: the agent kills what this client has left running,
    ///   and the sandbox lives on. An agent that breaks the protocol ends it still.
    ///
    /// # Errors
    ///
    /// When the agent does not answer as it should within 10 s. The sandbox has been destroyed then; so it is when this
    /// future is dropped.
    pub async fn connect<S>(
        stream: S,
        sandbox: Sandbox,
        isolator: Box<dyn Isolator>,
    ) -> Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let isolator: Arc<dyn Isolator> = Arc::from(isolator);
        let tier = isolator.tier().to_owned();
        let greeting = sandbox.clone();
        let opened =
            async { Connection::open(&tier, stream, Greeting::Hello(&greeting.settings)).await };
        Self::take_over(opened, sandbox, isolator).await
    }

    /// The same where the way to the agent may break: `reach` opens the first stream, and another one whenever one has broken. The agent
    /// listens, and waits for its client's return for as long as its lease says.
    ///
    /// # Behavior
    ///
    /// - A stream that breaks costs nothing: output, input and ends of executions go on over the next one, byte for byte. Time limits
    ///   of executions hold meanwhile.
    /// - Where the agent is not reached again within its lease (without one, 60 s), or is known to be gone, the connection ends.
    ///
    /// # Errors
    ///
    /// As [`AgentInstance::connect`], and what `reach` says of the first stream.
    pub async fn connect_by(
        reach: Arc<dyn Reach>,
        sandbox: Sandbox,
        isolator: Box<dyn Isolator>,
    ) -> Result<Self> {
        let isolator: Arc<dyn Isolator> = Arc::from(isolator);
        let tier = isolator.tier().to_owned();
        let greeting = sandbox.clone();
        let opened = async {
            let settings = &greeting.settings;
            let first = reach.open().await.map_err(Unreachable::into_error)?;
            let stream = link::begin(first, reach, link::patience(settings.lease_ms))?;
            Connection::open_linked(&tier, stream, Greeting::Hello(settings)).await
        };
        Self::take_over(opened, sandbox, isolator).await
    }

    /// Takes over the sandbox of a connection, or ends it.
    async fn take_over(
        opened: impl Future<Output = Result<(Connection, Welcome)>>,
        sandbox: Sandbox,
        isolator: Arc<dyn Isolator>,
    ) -> Result<Self> {
        let mut guard = Unconnected(Some(Arc::clone(&isolator)));
        match opened.await {
            Ok((connection, welcome)) => {
                guard.0 = None;
                let owned = !sandbox.detached;
                let mut instance = Self::over(connection, sandbox.into(), owned, isolator);
                instance.landlock_abi = welcome.landlock_abi;
                Ok(instance)
            }
            Err(error) => {
                let known = isolator.post_mortem().await;
                let destroyed = isolator.destroy().await;
                guard.0 = None;
                let error = match known {
                    Some(known) => error.with_source(known),
                    None => error,
                };
                if let Err(left) = destroyed {
                    tracing::error!(%left, "a sandbox that did not start could not be removed");
                }
                Err(error)
            }
        }
    }

    /// Becomes a later client of a sandbox whose agent listens at the other end of `stream`.
    ///
    /// # Behavior
    ///
    /// - Dropping the instance only closes the stream, as with [`Sandbox::detached`].
    /// - [`Instance::stop`] and [`Instance::kill`] end the sandbox for all of its clients.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] for a wrong key or too many clients (16), [`ErrorKind::SandboxEnded`] when the stream
    /// ends before the answer, [`ErrorKind::Protocol`] for an agent of another version, and when no answer comes within
    /// 10 s. The sandbox is left as it is.
    ///
    /// [`Instance::stop`]: sandbox_core::spi::Instance::stop
    /// [`Instance::kill`]: sandbox_core::spi::Instance::kill
    /// [`ErrorKind::InvalidRequest`]: sandbox_core::ErrorKind::InvalidRequest
    /// [`ErrorKind::SandboxEnded`]: sandbox_core::ErrorKind::SandboxEnded
    /// [`ErrorKind::Protocol`]: sandbox_core::ErrorKind::Protocol
    pub async fn attach<S>(
        stream: S,
        key: &Key,
        sandbox: AttachedSandbox,
        isolator: Box<dyn Isolator>,
    ) -> Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let isolator: Arc<dyn Isolator> = Arc::from(isolator);
        let (connection, welcome) =
            Connection::open(isolator.tier(), stream, Greeting::Attach(key)).await?;
        Ok(Self::attached(connection, &welcome, sandbox, isolator).await)
    }

    /// The same where the way to the agent may break: see [`AgentInstance::connect_by`]. The agent waits 60 s for this client's return, or
    /// its lease where it has one.
    ///
    /// # Errors
    ///
    /// As [`AgentInstance::attach`], and what `reach` says of the first stream.
    pub async fn attach_by(
        reach: Arc<dyn Reach>,
        key: &Key,
        sandbox: AttachedSandbox,
        isolator: Box<dyn Isolator>,
    ) -> Result<Self> {
        let isolator: Arc<dyn Isolator> = Arc::from(isolator);
        let first = reach.open().await.map_err(Unreachable::into_error)?;
        let stream = link::begin(first, reach, link::patience(0))?;
        let greeting = Greeting::Attach(key);
        let (connection, welcome) =
            Connection::open_linked(isolator.tier(), stream, greeting).await?;
        Ok(Self::attached(connection, &welcome, sandbox, isolator).await)
    }

    async fn attached(
        connection: Connection,
        welcome: &Welcome,
        sandbox: AttachedSandbox,
        isolator: Arc<dyn Isolator>,
    ) -> Self {
        // What was refused before is not this client's to report.
        let before = isolator.counters().await;
        let mut instance = Self::over(connection, sandbox, false, isolator);
        instance.landlock_abi = welcome.landlock_abi;
        *instance.known_counters() = before;
        instance
    }

    fn over(
        connection: Connection,
        sandbox: AttachedSandbox,
        owned: bool,
        isolator: Arc<dyn Isolator>,
    ) -> Self {
        // Whoever broke the protocol loses the sandbox; whoever stopped answering, one that nobody else may use.
        let ended = connection.watch_end();
        let watched = Arc::clone(&isolator);
        tokio::spawn(async move {
            let cause = ended.await;
            if owned || cause == Cause::Violation {
                watched.destroy_soon();
            }
        });
        Self {
            connection,
            sandbox,
            owned,
            landlock_abi: 0,
            isolator,
            running: AtomicUsize::new(0),
            counters: Mutex::new(Counters::FRESH),
            workspace: None,
        }
    }
}
