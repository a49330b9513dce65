//! Limits, retries and counts requests to the API server.
//!
//! All requests of a backend and its sandboxes pass through one gate. This bounds how many run at
//! once and shows what each sandbox costs.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use sandbox_host::lock;
use tokio::sync::Semaphore;

/// The default for how many requests wait for an answer at once: fewer than a server allows one
/// account by default.
pub const REQUESTS_AT_ONCE: usize = 24;

/// Attempts per request before a "too many requests" answer is returned.
const ATTEMPTS: u32 = 8;

/// The first and the longest pause before a retry, if the server names none.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(8)];

/// The longest pause that a server may ask for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(30);

/// Counts of the requests that a backend has sent to the API server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requests {
    /// Requests by verb and resource ("create pods", "exec pods", "watch pods"), retries included.
    pub by_kind: BTreeMap<String, u64>,
    /// Requests that the server postponed because it was busy.
    pub put_off: u64,
    /// Sandboxes that the requests were for, including pods that were started ahead.
    pub sandboxes: u64,
    /// The largest number of requests for one sandbox, without those that all share.
    pub most_for_one: u64,
}

impl Requests {
    /// The number of all requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_kind.values().sum()
    }

    /// The number of requests of one kind.
    #[must_use]
    pub fn of(&self, kind: &str) -> u64 {
        self.by_kind.get(kind).copied().unwrap_or_default()
    }

    /// All requests divided by the number of sandboxes; `None` before the first sandbox.
    #[must_use]
    pub fn per_sandbox(&self) -> Option<f64> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "counts stay far below what a float holds exactly"
        )]
        (self.sandboxes > 0).then(|| self.total() as f64 / self.sandboxes as f64)
    }
}

/// Bounds and counts requests.
#[derive(Debug)]
pub(crate) struct RequestGate {
    permits: Semaphore,
    counts: Mutex<Requests>,
}

impl RequestGate {
    /// A gate that lets this many requests wait for an answer at once.
    pub(crate) fn new(at_once: usize) -> Self {
        Self {
            permits: Semaphore::new(at_once.clamp(1, Semaphore::MAX_PERMITS)),
            counts: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        lock(&self.counts)
    }

    pub(crate) fn counted(&self) -> Requests {
        self.lock().clone()
    }

    /// The same client behind this gate.
    pub(crate) fn client(self: &Arc<Self>, client: Client) -> Client {
        self.wrap(client, None)
    }

    /// As [`RequestGate::client`], counted as one more sandbox.
    pub(crate) fn sandbox_client(self: &Arc<Self>, client: Client) -> Client {
        self.lock().sandboxes += 1;
        self.wrap(client, Some(Arc::default()))
    }

    fn wrap(self: &Arc<Self>, client: Client, sandbox_count: Option<Arc<AtomicU64>>) -> Client {
        let namespace = client.default_namespace().to_owned();
        let service = GatedClient {
            client,
            gate: Arc::clone(self),
            sandbox_count,
        };
        Client::new(service, namespace)
    }

    fn count(&self, kind: &str, sandbox_count: Option<&AtomicU64>) {
        let mut counts = self.lock();
        *counts.by_kind.entry(kind.to_owned()).or_default() += 1;
        if let Some(sandbox_count) = sandbox_count {
            let now = sandbox_count.fetch_add(1, Ordering::Relaxed) + 1;
            counts.most_for_one = counts.most_for_one.max(now);
        }
    }
}

/// A client behind a gate.
struct GatedClient {
    client: Client,
    gate: Arc<RequestGate>,
    sandbox_count: Option<Arc<AtomicU64>>,
}

type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, kube::Error>> + Send>>;

impl tower_service::Service<Request<Body>> for GatedClient {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.client.clone();
        let gate = Arc::clone(&self.gate);
        let sandbox_count = self.sandbox_count.clone();
        Box::pin(async move { send(&client, &gate, sandbox_count.as_deref(), request).await })
    }
}

async fn send(
    client: &Client,
    gate: &RequestGate,
    sandbox_count: Option<&AtomicU64>,
    request: Request<Body>,
) -> Result<Response<Body>, kube::Error> {
    let kind = kind(request.method(), request.uri());
    let (parts, mut body) = request.into_parts();
    let mut pause = PAUSES[0];
    let mut attempts_left = ATTEMPTS;
    loop {
        attempts_left -= 1;
        // A body that cannot be cloned is sent only once.
        let again = (attempts_left > 0).then(|| body.try_clone()).flatten();
        // Held until the response head arrives: watches and executions continue without a permit.
        // The semaphore is never closed.
        let permit = gate.permits.acquire().await;
        gate.count(&kind, sandbox_count);
        let answer = client
            .send(Request::from_parts(parts.clone(), body))
            .await?;
        drop(permit);
        if !may_retry(&parts.method, answer.status()) {
            return Ok(answer);
        }
        match again {
            Some(again) => body = again,
            None => return Ok(answer),
        }
        gate.lock().put_off += 1;
        let asked = answer.headers().get(RETRY_AFTER);
        let asked = asked.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let asked = asked.map(Duration::from_secs);
        tokio::time::sleep(spread(
            asked.map_or(pause, |asked| asked.min(LONGEST_RETRY_AFTER)),
        ))
        .await;
        pause = (2 * pause).min(PAUSES[1]);
    }
}

/// Whether to repeat the request: the server has not started it, or repeating it has no further
/// effect.
fn may_retry(method: &Method, status: StatusCode) -> bool {
    let harmless = [Method::GET, Method::DELETE].contains(method);
    status == StatusCode::TOO_MANY_REQUESTS
        || (harmless && status == StatusCode::SERVICE_UNAVAILABLE)
}

/// The pause lengthened by up to half at random, so that postponed requests do not return at the
/// same moment.
pub(crate) fn spread(pause: Duration) -> Duration {
    let mut byte = [0];
    // Without random bytes the pause is not lengthened.
    let _ = rustix::rand::getrandom(&mut byte, rustix::rand::GetRandomFlags::empty());
    pause + pause * u32::from(byte[0]) / 510
}

/// Verb and resource of a request, as a role names them; `exec` counts as a verb.
fn kind(method: &Method, uri: &http::Uri) -> String {
    let parts: Vec<&str> = uri
        .path()
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    let watches = uri
        .query()
        .is_some_and(|query| query.split('&').any(|pair| pair.starts_with("watch=")));
    let place = parts.iter().position(|part| *part == "namespaces");
    let (resource, name, below) = match place.map(|place| &parts[place + 2..]) {
        Some([resource, rest @ ..]) => (*resource, rest.first(), rest.get(1)),
        _ => (parts.last().copied().unwrap_or("/"), Some(&""), None),
    };
    let verb = match (method, below) {
        (_, Some(&"exec")) => "exec",
        (&Method::GET, _) if watches => "watch",
        (&Method::GET, _) if name.is_none() => "list",
        (&Method::GET, _) => "get",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, _) => "delete",
        (other, _) => other.as_str(),
    };
    format!("{verb} {resource}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_named_like_role_rules() {
        let kind = |method, uri: &str| super::kind(&method, &uri.parse().expect("an address"));
        let pods = "/api/v1/namespaces/ns/pods";
        assert_eq!(kind(Method::POST, &format!("{pods}?")), "create pods");
        assert_eq!(kind(Method::GET, pods), "list pods");
        assert_eq!(
            kind(Method::GET, &format!("{pods}?labelSelector=x&watch=true")),
            "watch pods"
        );
        assert_eq!(kind(Method::GET, &format!("{pods}/exec")), "get pods");
        assert_eq!(
            kind(Method::GET, &format!("{pods}/a/exec?command=x")),
            "exec pods"
        );
        assert_eq!(kind(Method::DELETE, &format!("{pods}/a")), "delete pods");
        assert_eq!(kind(Method::GET, "/version"), "get version");
        assert_eq!(
            kind(Method::GET, "/api/v1/namespaces/ns/configmaps/m"),
            "get configmaps"
        );
    }

    #[test]
    fn only_unstarted_or_idempotent_requests_are_retried() {
        let too_many = StatusCode::TOO_MANY_REQUESTS;
        assert!(may_retry(&Method::POST, too_many) && may_retry(&Method::GET, too_many));
        let absent = StatusCode::SERVICE_UNAVAILABLE;
        assert!(!may_retry(&Method::POST, absent) && may_retry(&Method::DELETE, absent));
        assert!(!may_retry(&Method::GET, StatusCode::CONFLICT));
    }

    #[test]
    fn pause_grows_by_half_at_most() {
        let pause = Duration::from_secs(2);
        for _ in 0..100 {
            assert!((pause..=pause * 3 / 2).contains(&spread(pause)));
        }
    }

    /// A server that postpones the first two requests, over a real connection.
    #[tokio::test]
    async fn postponed_request_is_retried_after_the_given_time() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = tokio::spawn(async move {
            let busy = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
            let version = r#"{"major":"1","minor":"20","gitVersion":"v1","gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"","compiler":"","platform":""}"#;
            let good = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{version}",
                version.len()
            );
            for answer in [busy, busy, &good] {
                let (mut socket, _) = listener.accept().await.expect("a client");
                let mut request = [0; 4096];
                let read = socket.read(&mut request).await.expect("a request");
                assert!(request[..read].starts_with(b"GET /version"));
                socket
                    .write_all(answer.as_bytes())
                    .await
                    .expect("an answer");
            }
        });
        let uri = format!("http://{address}").parse().expect("an address");
        let mut config = kube::Config::new(uri);
        config.default_retry = false;
        let gate = Arc::new(RequestGate::new(1));
        let client = gate.sandbox_client(Client::try_from(config).expect("a client"));
        let version = client.apiserver_version().await.expect("an answer");
        assert_eq!(version.git_version, "v1");
        server.await.expect("a server");
        let counted = gate.counted();
        assert_eq!((counted.of("get version"), counted.put_off), (3, 2));
        assert_eq!((counted.sandboxes, counted.most_for_one), (1, 3));
        assert_eq!(counted.per_sandbox(), Some(3.0));
    }
}
