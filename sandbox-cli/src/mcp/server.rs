//! The server: what all its clients share.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::stdio_pipes;
use sandbox::{
    ByteSize, CapabilityPolicy, Error, ErrorKind, Plan, Result, SandboxClient, SandboxSpec,
};
use tokio::sync::Semaphore;

use crate::mcp::handler::Handler;
use crate::mcp::store::ClientStore;

/// How many calls run at once. Others wait.
const MAX_CALLS: u32 = 16;

/// What a call may need besides its own executions and files: creating a sandbox.
const CALL_OVERHEAD: Duration = Duration::from_secs(300);

/// How long [`McpServer::close`] waits for calls that end.
const CLOSE_TIME_LIMIT: Duration = Duration::from_secs(5);

/// The longest arguments of a call: a line of standard input, or the body of an HTTP request.
pub const MAX_MESSAGE: ByteSize = ByteSize::mib(16);

/// A server whose tools run code in sandboxes of one client, under its policy.
#[derive(Debug, Clone)]
pub struct McpServer {
    shared: Arc<Shared>,
}

/// What all clients of a server share.
#[derive(Debug)]
pub struct Shared {
    pub client: SandboxClient,
    /// The specification that calls narrow.
    pub template: SandboxSpec,
    /// The most that a call may ask for: the policy, with the template's values as limits.
    pub ceiling: CapabilityPolicy,
    /// The plan of a sandbox that a call asks nothing of.
    pub plan: Plan,
    /// What clients without a session made: those that share an access token share it.
    pub sessionless: Arc<ClientStore>,
    /// One permit for each call that runs.
    pub calls: Semaphore,
}

impl Shared {
    /// The longest that a call may take. Code may be compiled before it runs.
    pub fn call_limit(&self) -> Duration {
        let limit = self.plan.timeout.saturating_mul(2);
        limit.saturating_add(self.plan.file_timeout + CALL_OVERHEAD)
    }
}

impl McpServer {
    /// A server whose sandboxes are made from `template`. Calls cannot ask for more than it has:
    /// its memory, processors and egress are limits too, and so is its image.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPolicy`]; [`ErrorKind::InvalidSpec`] and [`ErrorKind::PolicyExceeded`]
    /// for the template.
    pub fn new(client: SandboxClient, template: SandboxSpec) -> Result<Self> {
        if template.detached {
            let why = "a sandbox of this server ends with its client, so it is not detached";
            return Err(Error::new(ErrorKind::InvalidSpec, "start server", why));
        }
        let plan = client.plan(&template)?;
        let mut ceiling = client.policy().clone();
        ceiling.memory = Some(plan.memory);
        ceiling.cpus = Some(plan.cpus);
        ceiling.network = Some(plan.network.clone());
        ceiling.lifetime = plan.lifetime;
        if ceiling.images.is_none() {
            ceiling.images = template.image.clone().map(|image| vec![image]);
        }
        Ok(Self {
            shared: Arc::new(Shared {
                client,
                template,
                ceiling,
                plan,
                sessionless: Arc::new(ClientStore::without_connection()),
                calls: Semaphore::new(MAX_CALLS as usize),
            }),
        })
    }

    /// Serves one client on standard input and output, until it closes them. Nothing else may write
    /// to standard output.
    ///
    /// Needs a tokio runtime with input and output.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Protocol`] if the client does not start the protocol.
    pub async fn serve_stdio(&self) -> Result<()> {
        let (read, write) = stdio_pipes();
        let transport = AsyncRwTransport::new_server(read, write);
        let transport = transport.with_max_line_length(MAX_MESSAGE.as_usize());
        let running = match self.handler().serve(transport).await {
            Ok(running) => running,
            // The client left without a word.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => {
                let context = "the client did not start the protocol";
                return Err(Error::new(ErrorKind::Protocol, "serve", context).with_source(error));
            }
        };
        let ended = running.waiting().await.map_err(io::Error::other);
        let failed =
            |error| Error::new(ErrorKind::Io, "serve", "the server failed").with_source(error);
        ended.map(drop).map_err(failed)
    }

    /// The handler of a new client.
    pub fn handler(&self) -> Handler {
        Handler::new(Arc::clone(&self.shared))
    }

    /// The longest that a call may take.
    pub fn call_limit(&self) -> Duration {
        self.shared.call_limit()
    }

    /// Waits until the calls of clients that left have ended, and ends what they made. A program
    /// calls this before it exits.
    pub async fn close(&self) {
        let ended = self.shared.calls.acquire_many(MAX_CALLS);
        if tokio::time::timeout(CLOSE_TIME_LIMIT, ended).await.is_err() {
            tracing::warn!("calls have not ended after {CLOSE_TIME_LIMIT:?}");
        }
        self.shared.sessionless.clear();
        self.shared.client.settle().await;
    }
}
