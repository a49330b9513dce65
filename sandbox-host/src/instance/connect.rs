//! Creates instances, as the first or as a later client of an agent.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock};

use sandbox_agent::protocol::{ClientKey, Welcome};
use sandbox_core::Result;
use tokio::io::{AsyncRead, AsyncWrite};

use super::AgentInstance;
use crate::carrier::{Carrier, CarrierFiles, Carrying, RemoteCarrier};
use crate::connection::{Connection, EndCause};
use crate::greeting::Greeting;
use crate::link::{self, Connector, Unreachable};
use crate::sandbox::{AttachedSandbox, Sandbox};
use crate::tcp::code::ConnectionReports;
use crate::{Counters, Isolator};

/// Destroys the sandbox on drop, unless the agent has answered.
struct DestroyUnlessConnected(Option<Arc<dyn Isolator>>);

impl Drop for DestroyUnlessConnected {
    fn drop(&mut self) {
        if let Some(isolator) = &self.0 {
            isolator.destroy_soon();
        }
    }
}

impl AgentInstance {
    /// Greets the agent at the other end of `stream` and takes ownership of the sandbox.
    ///
    /// # Behavior
    ///
    /// - Dropping the instance ends the sandbox. So does an agent that violates the protocol, does
    ///   not answer or disappears.
    /// - With [`Sandbox::detached`], dropping only closes the stream: the agent kills what this
    ///   client left running, and the sandbox keeps running. A protocol violation still ends it.
    ///
    /// # Errors
    ///
    /// If the agent does not answer correctly within 10 s. The sandbox has been destroyed then, and
    /// also if this future is dropped.
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

    /// As [`AgentInstance::connect`], for streams that may break: `reach` opens the first stream,
    /// and another one whenever one breaks. The agent listens, and waits for its client's return as
    /// long as its lease says.
    ///
    /// # Behavior
    ///
    /// - A broken stream loses nothing: output, input and ends of executions continue over the next
    ///   one, byte for byte. Time limits of executions still apply.
    /// - The connection ends if the agent has ended, or stays unreachable for longer than its lease
    ///   (60 s without one).
    ///
    /// # Errors
    ///
    /// As [`AgentInstance::connect`], and the error of the first stream.
    pub async fn connect_by(
        reach: Arc<dyn Connector>,
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

    /// Takes over the sandbox of a connection, or destroys it on an error.
    async fn take_over(
        opened: impl Future<Output = Result<(Connection, Welcome)>>,
        sandbox: Sandbox,
        isolator: Arc<dyn Isolator>,
    ) -> Result<Self> {
        let mut guard = DestroyUnlessConnected(Some(Arc::clone(&isolator)));
        match opened.await {
            Ok((connection, welcome)) => {
                guard.0 = None;
                let owned = !sandbox.detached;
                let egress = sandbox.egress.clone();
                let mut instance =
                    Self::from_connection(connection, sandbox.into(), owned, isolator);
                if let Some(egress) = egress {
                    let shared = instance.connection.shared();
                    let carrier = Carrier::start(egress, shared, instance.reports.clone())?;
                    // It is the first one.
                    let _ = instance.carrying.set(Carrying::owner(carrier));
                }
                instance.welcome = welcome;
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
    /// The sandbox stays unchanged on each of these:
    ///
    /// - [`ErrorKind::InvalidRequest`] for a wrong key or too many clients (16);
    /// - [`ErrorKind::SandboxEnded`] if the stream ends before the answer;
    /// - [`ErrorKind::Protocol`] for an agent of another version, or without an answer within 10 s.
    ///
    /// [`Instance::stop`]: sandbox_core::spi::Instance::stop
    /// [`Instance::kill`]: sandbox_core::spi::Instance::kill
    /// [`ErrorKind::InvalidRequest`]: sandbox_core::ErrorKind::InvalidRequest
    /// [`ErrorKind::SandboxEnded`]: sandbox_core::ErrorKind::SandboxEnded
    /// [`ErrorKind::Protocol`]: sandbox_core::ErrorKind::Protocol
    pub async fn attach<S>(
        stream: S,
        key: &ClientKey,
        sandbox: AttachedSandbox,
        isolator: Box<dyn Isolator>,
    ) -> Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let isolator: Arc<dyn Isolator> = Arc::from(isolator);
        let (connection, welcome) =
            Connection::open(isolator.tier(), stream, Greeting::Attach(key)).await?;
        Ok(Self::attached(connection, &welcome, sandbox, isolator, key).await)
    }

    /// As [`AgentInstance::attach`], for streams that may break: see [`AgentInstance::connect_by`].
    /// The agent waits for this client's return for its lease, or 60 s without one.
    ///
    /// # Errors
    ///
    /// As [`AgentInstance::attach`], and the error of the first stream.
    pub async fn attach_by(
        reach: Arc<dyn Connector>,
        key: &ClientKey,
        sandbox: AttachedSandbox,
        isolator: Box<dyn Isolator>,
    ) -> Result<Self> {
        let isolator: Arc<dyn Isolator> = Arc::from(isolator);
        let first = reach.open().await.map_err(Unreachable::into_error)?;
        let stream = link::begin(first, reach, link::patience(0))?;
        let greeting = Greeting::Attach(key);
        let (connection, welcome) =
            Connection::open_linked(isolator.tier(), stream, greeting).await?;
        Ok(Self::attached(connection, &welcome, sandbox, isolator, key).await)
    }

    async fn attached(
        connection: Connection,
        welcome: &Welcome,
        sandbox: AttachedSandbox,
        isolator: Arc<dyn Isolator>,
        key: &ClientKey,
    ) -> Self {
        // Earlier denials are not this client's to report.
        let before = isolator.counters().await;
        let has_rules = sandbox.egress.is_some();
        let mut instance = Self::from_connection(connection, sandbox, false, isolator);
        instance.remote = has_rules.then(|| RemoteCarrier::new(CarrierFiles::new(key)));
        instance.welcome = *welcome;
        *instance.known_counters() = before;
        instance
    }

    fn from_connection(
        connection: Connection,
        sandbox: AttachedSandbox,
        owned: bool,
        isolator: Arc<dyn Isolator>,
    ) -> Self {
        // A protocol violation ends the sandbox. An agent that does not answer ends it only if this
        // client owns it.
        let ended = connection.watch_end();
        let watched = Arc::clone(&isolator);
        tokio::spawn(async move {
            let cause = ended.await;
            if owned || cause == EndCause::Violation {
                watched.destroy_soon();
            }
        });
        Self {
            connection,
            sandbox,
            owned,
            welcome: Welcome::default(),
            isolator,
            running: AtomicUsize::new(0),
            counters: Mutex::new(Counters::FRESH),
            workspace: None,
            carrying: OnceLock::new(),
            becoming_carrier: tokio::sync::Mutex::new(()),
            remote: None,
            reports: ConnectionReports::default(),
        }
    }
}
