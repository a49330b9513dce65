//! The server over HTTP: streamable HTTP on one path, for clients with an access token.

mod token;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sandbox::{Error, ErrorKind, Result};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::mcp::handler::Handler;
use crate::mcp::server::{MAX_MESSAGE, McpServer};
pub use token::AccessToken;

/// The path of the protocol.
const PATH: &str = "/mcp";

/// How many connections are open at once. Others wait.
const MAX_CONNECTIONS: usize = 64;

/// How long a client may take to send the head of a request.
const HEAD_TIME_LIMIT: Duration = Duration::from_secs(10);

/// How long a session may be idle. Its sandboxes end with it.
const SESSION_TIME_LIMIT: Duration = Duration::from_secs(3600);

/// How long the server waits after it could not accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A server that listens on a port.
#[derive(Debug)]
pub struct HttpListener {
    listener: TcpListener,
    address: SocketAddr,
    token: AccessToken,
    /// The names and addresses, with ports, that clients may call the server.
    authorities: Vec<String>,
    server: McpServer,
}

type Mcp = StreamableHttpService<Handler, LocalSessionManager>;
type HttpResponse = Response<BoxBody<Bytes, Infallible>>;

impl HttpListener {
    /// Listens on this address. Port 0 lets the kernel choose.
    ///
    /// Clients must call the server by its loopback address or as `localhost`, or by a name in
    /// `remote_hosts`, each `HOST` or `HOST:PORT`: the headers `Host` and `Origin` are checked.
    /// An address that is not loopback is refused unless there are such names. The connection is not
    /// encrypted.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] for an address that is not loopback, and [`ErrorKind::Io`] if
    /// it cannot be used.
    pub async fn bind(
        server: &McpServer,
        address: SocketAddr,
        token: AccessToken,
        remote_hosts: &[String],
    ) -> Result<Self> {
        if !address.ip().is_loopback() && remote_hosts.is_empty() {
            let why = format!("{address} is reachable from other machines");
            return Err(Error::new(ErrorKind::InvalidRequest, "listen", why)
                .with_fix("use 127.0.0.1 or [::1], or name the hosts that remote clients call"));
        }
        let failed =
            |error| Error::new(ErrorKind::Io, "listen", address.to_string()).with_source(error);
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let port = address.port();
        let local = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}"));
        let remote = remote_hosts.iter().map(|host| match has_port(host) {
            true => host.clone(),
            false => format!("{host}:{port}"),
        });
        Ok(Self {
            listener,
            address,
            token,
            authorities: local.into_iter().chain(remote).collect(),
            server: server.clone(),
        })
    }

    /// The URL that clients on this machine use.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// The token that clients must send.
    #[must_use]
    pub fn token(&self) -> &AccessToken {
        &self.token
    }

    /// Serves clients until the future is dropped, which ends their connections and sessions.
    ///
    /// A client with a session has its own sandboxes. They end with the session: when the client
    /// deletes it, or after an hour without a request. Clients of protocol versions without sessions
    /// share theirs: all holders of the token are one client.
    pub async fn serve(self) {
        let mut config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(self.authorities.clone())
            .with_max_request_body_bytes(MAX_MESSAGE.as_usize())
            .enforce_origin_validation();
        let schemes = ["http", "https"].iter();
        config.allowed_origins = schemes
            .flat_map(|scheme| {
                self.authorities
                    .iter()
                    .map(move |host| format!("{scheme}://{host}"))
            })
            .collect();
        // Ends the sessions with this future.
        let _guard = config.cancellation_token.clone().drop_guard();
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(SESSION_TIME_LIMIT.max(self.server.call_limit()));
        let server = self.server.clone();
        let mcp = Mcp::new(move || Ok(server.handler()), Arc::new(sessions), config);
        let shared = Arc::new((mcp, self.token));
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                return; // Nothing closes it.
            };
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let shared = Arc::clone(&shared);
            connections.spawn(async move {
                let service = service_fn(move |request| {
                    let shared = Arc::clone(&shared);
                    async move { Ok::<_, Infallible>(answer(&shared.0, &shared.1, request).await) }
                });
                let served = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIME_LIMIT)
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
                if let Err(error) = served {
                    tracing::debug!(%error, "a connection failed");
                }
                drop(permit);
            });
        }
    }
}

async fn answer(mcp: &Mcp, token: &AccessToken, request: Request<Incoming>) -> HttpResponse {
    let sent = request.headers().get(AUTHORIZATION);
    if !sent.is_some_and(|sent| token.is_in(sent.as_bytes())) {
        let mut refused = status(
            StatusCode::UNAUTHORIZED,
            "the access token is missing or wrong",
        );
        let bearer = http::HeaderValue::from_static("Bearer");
        refused.headers_mut().insert(WWW_AUTHENTICATE, bearer);
        return refused;
    }
    if request.uri().path() != PATH {
        return status(StatusCode::NOT_FOUND, "the protocol is at /mcp");
    }
    mcp.handle(request).await
}

fn status(code: StatusCode, text: &'static str) -> HttpResponse {
    let mut response = Response::new(Full::from(text).boxed());
    *response.status_mut() = code;
    response
}

/// Whether a host is followed by a port. Colons of an IPv6 address are within brackets.
fn has_port(host: &str) -> bool {
    let after = host.rsplit(']').next().unwrap_or(host);
    after.contains(':')
}
