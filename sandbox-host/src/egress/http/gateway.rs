//! Judges and passes on the requests of one connection.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Mutex;

use ::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, TRANSFER_ENCODING};
use ::http::request::Parts;
use ::http::{Request, Response, StatusCode};
use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self as client, SendRequest};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sandbox_core::policy::NetworkRule;
use sandbox_core::spi::escape;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex as AsyncMutex, SemaphorePermit};

use super::aws;
use super::bodies::{Bodies, BodyError};
use super::head::{RequestedServer, short, strip};
use super::placeholders::{self, Placeholders};
use crate::egress::end::HttpEnd;
use crate::egress::limits::MAX_FIRST_FLIGHT;
use crate::egress::live::Ticket;
use crate::egress::{CarryEvent, CodeTarget, ConnectionDenial};
use crate::lock;

/// The longest head of an answer in bytes. Some set many cookies.
const MAX_ANSWER_HEAD: usize = 64 * 1024;

/// The most headers of a request or an answer.
const MAX_HEADERS: usize = 128;

/// The longest path of a record in characters.
const MAX_TOLD_PATH: usize = 1024;

/// An answer: the server's, or one of this host.
type GatewayResponse = Response<Either<Incoming, Full<Bytes>>>;

/// The body of a request: the code's, or one with secrets in it.
type Asked = Either<Incoming, Full<Bytes>>;

/// The server's side of a connection.
pub(super) struct Upstream<S: AsyncRead + AsyncWrite + Unpin> {
    sender: SendRequest<Asked>,
    connection: client::Connection<TokioIo<S>, Asked>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Upstream<S> {
    pub(super) async fn open(stream: S) -> hyper::Result<Self> {
        let mut builder = client::Builder::new();
        builder
            .preserve_header_case(true)
            .max_headers(MAX_HEADERS)
            .max_buf_size(MAX_ANSWER_HEAD);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        Ok(Self { sender, connection })
    }
}

/// One connection of code.
pub(super) struct Gateway<'a, F> {
    target: &'a CodeTarget,
    server: RequestedServer<'a>,
    ticket: &'a Ticket<'a>,
    placeholders: &'a Placeholders,
    bodies: &'a Bodies,
    told: Mutex<F>,
}

impl<'a, F: FnMut(CarryEvent) + Send> Gateway<'a, F> {
    pub(super) fn new(
        target: &'a CodeTarget,
        server: RequestedServer<'a>,
        ticket: &'a Ticket<'a>,
        placeholders: &'a Placeholders,
        bodies: &'a Bodies,
        told: F,
    ) -> Self {
        Self {
            target,
            server,
            ticket,
            placeholders,
            bodies,
            told: Mutex::new(told),
        }
    }

    /// Passes requests on until one side ends.
    pub(super) async fn serve<C, S>(&self, code: C, upstream: hyper::Result<Upstream<S>>) -> HttpEnd
    where
        C: AsyncRead + AsyncWrite + Unpin,
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Upstream { sender, connection } = match upstream {
            Ok(upstream) => upstream,
            Err(error) => return self.serve_failure(code, io::Error::other(error)).await,
        };
        // A client sends one request after the other.
        let sender = AsyncMutex::new(sender);
        let service = service_fn(async |request| {
            let mut sender = sender.lock().await;
            Ok::<_, Infallible>(self.answer(request, &mut sender).await)
        });
        let mut serving = pin!(code_side().serve_connection(TokioIo::new(code), service));
        let mut connection = pin!(connection);
        let mut is_open = true;
        let served = loop {
            tokio::select! {
                served = serving.as_mut() => break served,
                _ = connection.as_mut(), if is_open => {
                    // There is no one to answer another request.
                    is_open = false;
                    serving.as_mut().graceful_shutdown();
                }
            }
        };
        match served {
            Ok(()) => HttpEnd::Finished,
            Err(_) => HttpEnd::Reset,
        }
    }

    /// Answers one request with the reason why there is no server.
    pub(super) async fn serve_failure<C>(&self, code: C, error: io::Error) -> HttpEnd
    where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        let why = format!("the server of {}: {error}", self.server.name);
        let service = service_fn(async |request: Request<Incoming>| {
            Ok::<_, Infallible>(match self.judged(&request.into_parts().0) {
                Ok(_) => text(StatusCode::BAD_GATEWAY, &why),
                Err(denied) => self.denied(&denied),
            })
        });
        let mut builder = code_side();
        builder.keep_alive(false);
        // Code that does not read it misses the reason.
        let _ = builder.serve_connection(TokioIo::new(code), service).await;
        HttpEnd::NoServer(error)
    }

    /// Judges a request and returns the server's answer.
    async fn answer(
        &self,
        request: Request<Incoming>,
        sender: &mut SendRequest<Asked>,
    ) -> GatewayResponse {
        // The permit lives until the body was sent.
        let (request, _permit) = match self.allowed(request).await {
            Ok(allowed) => allowed,
            Err(answer) => return answer,
        };
        let failed = |error: hyper::Error| text(StatusCode::BAD_GATEWAY, &error.to_string());
        if let Err(error) = sender.ready().await {
            return failed(error);
        }
        match sender.send_request(request).await {
            // What follows it is no HTTP.
            Ok(answer) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => {
                text(StatusCode::BAD_GATEWAY, "the server switches protocols")
            }
            Ok(answer) => {
                let (mut parts, body) = answer.into_parts();
                strip(&mut parts.headers);
                Response::from_parts(parts, Either::Left(body))
            }
            Err(error) => failed(error),
        }
    }

    /// The request for the server, if the rules allow it, with the permit for its body; else what
    /// code is told.
    async fn allowed(
        &self,
        request: Request<Incoming>,
    ) -> Result<(Request<Asked>, Option<SemaphorePermit<'a>>), GatewayResponse> {
        let denied = |denial: ConnectionDenial| self.denied(&denial);
        let because = |why: String| denied(self.denial(why));
        let (mut parts, body) = request.into_parts();
        let (mut path, rule) = self.judged(&parts).map_err(denied)?;
        let told_path = told(&path);
        let has_secrets = !self.placeholders.is_empty();
        let encoding = placeholders::of_body(&parts.headers).filter(|_| has_secrets);
        // One that is known to be longer is passed on, if it is signed without a secret.
        let covers_body =
            has_secrets && Bodies::may_read(&body) && aws::covers_body(&parts.headers, &path);
        let (mut body, permit) = if encoding.is_some() || covers_body {
            let read = self.bodies.read(body).await;
            let (body, permit) = read.map_err(|error| match error {
                BodyError::TooLong => because(aws::TOO_LONG.to_owned()),
                BodyError::Failed(error) => text(StatusCode::BAD_REQUEST, &error),
            })?;
            (Either::Right(body), Some(permit))
        } else {
            (Either::Left(body), None)
        };
        let signed = aws::Signed::of(self.server, self.placeholders, &parts, &path, whole(&body));
        let signed = signed.map_err(because)?;
        let swapped = self
            .placeholders
            .swap_head(self.server, &mut parts, &mut path);
        let mut secrets = swapped.map_err(because)?;
        let mut is_body_changed = false;
        if let Either::Right(body) = &mut body {
            if let Some(encoding) = encoding {
                let swap = self
                    .placeholders
                    .swap(self.server, body, encoding, &mut secrets);
                if let Some(swapped) = swap.map_err(because)? {
                    *body = Bytes::from(swapped);
                    is_body_changed = true;
                }
            }
            let is_chunked = parts.headers.remove(TRANSFER_ENCODING).is_some();
            if is_chunked || parts.headers.contains_key(CONTENT_LENGTH) {
                parts.headers.insert(CONTENT_LENGTH, body.len().into());
            }
        }
        let forwarded = self.server.forward(&mut parts, &path);
        forwarded.map_err(|error| text(StatusCode::BAD_REQUEST, &error))?;
        if let Some(signed) = signed {
            let renewed = signed.renew(&mut parts, whole(&body), is_body_changed, &mut secrets);
            renewed.map_err(because)?;
        }
        self.tell(CarryEvent::Requested {
            method: short(parts.method.as_str()),
            path: told_path,
            secrets,
            rule,
        });
        let body = match body {
            Either::Left(body) => Either::Left(body),
            Either::Right(body) => Either::Right(Full::from(body)),
        };
        Ok((Request::from_parts(parts, body), permit))
    }

    /// The path of a request that the rules allow, with its query, and the rule.
    fn judged(&self, parts: &Parts) -> Result<(String, NetworkRule), ConnectionDenial> {
        let path = self.server.checked(parts).map_err(|why| self.denial(why))?;
        let rule = self.ticket.request(parts.method.as_str(), &path);
        let rule = rule.map_err(|refused| refused.into_denial(self.target))?;
        Ok((path, rule))
    }

    /// Another reason than the rules.
    fn denial(&self, why: String) -> ConnectionDenial {
        ConnectionDenial::new(self.target, why, Some(self.ticket.rule.clone()))
    }

    fn denied(&self, denial: &ConnectionDenial) -> GatewayResponse {
        let answer = text(StatusCode::FORBIDDEN, &format!("denied: {}", denial.why));
        self.tell(CarryEvent::Denied(denial.clone()));
        answer
    }

    fn tell(&self, event: CarryEvent) {
        (*lock(&self.told))(event);
    }
}

/// A body that was read.
fn whole(body: &Either<Incoming, Bytes>) -> Option<&[u8]> {
    match body {
        Either::Left(_) => None,
        Either::Right(body) => Some(body),
    }
}

/// The path of a record: without its query, which can have secrets.
fn told(path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    path.chars().take(MAX_TOLD_PATH).collect()
}

fn code_side() -> server::Builder {
    let mut builder = server::Builder::new();
    builder
        // A client may end its side after its last request.
        .half_close(true)
        .preserve_header_case(true)
        .auto_date_header(false)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_FIRST_FLIGHT)
        // A connection without requests ends by its idle limit.
        .header_read_timeout(None);
    builder
}

/// An answer of this host.
fn text(status: StatusCode, why: &str) -> GatewayResponse {
    let body = format!("sandbox: {}\n", escape(&short(why)));
    let mut answer = Response::new(Either::Right(Full::from(body)));
    *answer.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, plain);
    answer
}
