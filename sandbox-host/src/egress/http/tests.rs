use std::net::{IpAddr, Ipv4Addr};
use std::sync::Mutex;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use sandbox_core::policy::{EgressRules, NetworkPolicy};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::*;
use crate::egress::{
    CarryEnd, CodeTarget, Egress, EgressConfig, EgressOptions, EndReason, TargetHost,
};
use crate::lock;

const NAME: &str = "a.test";
const WAIT: Duration = Duration::from_secs(60);

/// A server with a certificate of its own for `a.test`, which answers each request with its head.
struct TestServer {
    port: u16,
    /// Its certificate in PEM format, which is its authority.
    certificate: String,
    /// What it was sent.
    received: Arc<Mutex<Vec<u8>>>,
}

impl TestServer {
    /// Answers with `answer` whenever the end of a head or of a chunked body arrives.
    async fn start(answer: &'static str) -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([NAME.to_owned()]).unwrap();
        let certificate = certificate.self_signed(&key).unwrap();
        let provider = tokio_rustls::rustls::crypto::ring::default_provider();
        let config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            );
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::<Mutex<Vec<u8>>>::default();
        let kept = Arc::clone(&received);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, kept) = (acceptor.clone(), Arc::clone(&kept));
                tokio::spawn(async move {
                    let mut first = [0];
                    stream.peek(&mut first).await.unwrap();
                    if first[0] == 22 {
                        if let Ok(stream) = acceptor.accept(stream).await {
                            converse(stream, answer, &kept).await;
                        }
                    } else {
                        converse(stream, answer, &kept).await;
                    }
                });
            }
        });
        Self {
            port,
            certificate: certificate.pem(),
            received,
        }
    }

    fn received(&self) -> String {
        String::from_utf8_lossy(&lock(&self.received)).into_owned()
    }

    fn egress(&self, rules: &[String], trusts: bool) -> (Arc<Egress>, tempfile::NamedTempFile) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &self.certificate).unwrap();
        let hosts = [NAME, "b.test"].map(|name| (name.to_owned(), IpAddr::from([127, 0, 0, 1])));
        let options = EgressOptions::new(EgressConfig {
            hosts: &hosts.into(),
            certificates: trusts.then_some(file.path()),
        });
        let rules = EgressRules::parse(rules).unwrap();
        let egress = Egress::with_options(rules, NetworkPolicy::Full, options.unwrap());
        (egress, file)
    }
}

async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &str,
    kept: &Mutex<Vec<u8>>,
) {
    let mut buffer = vec![0; 4096];
    while let Ok(length) = stream.read(&mut buffer).await {
        if length == 0 {
            return;
        }
        let ends = {
            let mut kept = lock(kept);
            kept.extend_from_slice(&buffer[..length]);
            kept.ends_with(b"\r\n\r\n")
        };
        if ends && stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
        let _ = stream.flush().await;
    }
}

type Events = Arc<Mutex<Vec<CarryEvent>>>;

/// Starts a connection: the code's side, the task that carries it, and its events so far.
fn start(egress: &Arc<Egress>, port: u16) -> (DuplexStream, JoinHandle<CarryEnd>, Events) {
    let (code, stream) = duplex(1 << 16);
    let (egress, events) = (Arc::clone(egress), Events::default());
    let told = Arc::clone(&events);
    let target = CodeTarget {
        host: TargetHost::Name(NAME.to_owned()),
        port,
    };
    let carry = tokio::spawn(async move {
        let tell = move |event| lock(&told).push(event);
        egress.carry(target, stream, tell).await
    });
    (code, carry, events)
}

/// Code's TLS over a connection, which trusts what the sandbox is told to trust.
async fn secure(
    egress: &Egress,
    code: DuplexStream,
    protocols: &[&str],
) -> io::Result<TlsStream<DuplexStream>> {
    let trusted = egress.trusted_certificates().await.unwrap().unwrap();
    let mut roots = RootCertStore::empty();
    let trusted = CertificateDer::pem_slice_iter(trusted.pem.as_bytes());
    roots.add_parsable_certificates(trusted.map(Result::unwrap));
    let provider = tokio_rustls::rustls::crypto::ring::default_provider();
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    let name = ServerName::try_from(NAME).unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, code)
        .await
}

/// Sends a request and returns its answer: the status line, and the body as its length says.
async fn ask(code: &mut (impl AsyncRead + AsyncWrite + Unpin), request: &str) -> (String, String) {
    code.write_all(request.as_bytes()).await.unwrap();
    code.flush().await.unwrap();
    tokio::time::timeout(WAIT, answer(code))
        .await
        .expect("an answer")
}

async fn answer(code: &mut (impl AsyncRead + Unpin)) -> (String, String) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(code.read_u8().await.expect("a head"));
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    code.read_exact(&mut body).await.unwrap();
    let status = head.lines().next().unwrap_or_default().to_owned();
    (status, String::from_utf8(body).unwrap())
}

async fn ended(carry: JoinHandle<CarryEnd>) -> CarryEnd {
    tokio::time::timeout(WAIT, carry)
        .await
        .expect("an end")
        .unwrap()
}

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello";

#[tokio::test]
async fn allowed_requests_reach_the_server_and_others_do_not() {
    let server = TestServer::start(HELLO).await;
    let port = server.port;
    let rules = [
        format!("{NAME}:{port} http GET /v1/* private"),
        format!("{NAME}:{port} http POST /upload private"),
    ];
    let (egress, _file) = server.egress(&rules, true);
    let (code, carry, events) = start(&egress, port);
    let mut code = secure(&egress, code, &["h2", "http/1.1"]).await.unwrap();
    let host = format!("Host: {NAME}:{port}\r\n\r\n");
    for (request, allowed) in [
        ("GET /v1/users?page=2 HTTP/1.1", true),
        ("DELETE /v1/users HTTP/1.1", false),
        ("GET /v2 HTTP/1.1", false),
        ("GET /v1/%2e%2e/v2 HTTP/1.1", false),
        ("POST /v1/users HTTP/1.1", false),
        ("POST /upload HTTP/1.1", true),
        ("GET /v1/again HTTP/1.1", true),
    ] {
        let (status, body) = ask(&mut code, &format!("{request}\r\n{host}")).await;
        let expected = if allowed {
            "http/1.1 200 ok"
        } else {
            "http/1.1 403 forbidden"
        };
        assert_eq!(status, expected, "{request}: {body}");
        assert_eq!(body == "hello", allowed, "{request}: {body}");
    }
    let (_, body) = ask(&mut code, &format!("PUT /v1 HTTP/1.1\r\n{host}")).await;
    assert!(
        body.contains("does not allow the request PUT /v1"),
        "{body}"
    );
    code.shutdown().await.unwrap();
    let end = ended(carry).await;
    assert!(
        matches!(&end, CarryEnd::Carried(carried) if carried.reason == EndReason::Finished),
        "{end:?}"
    );
    let received = server.received();
    let lines = received.lines().filter(|line| line.ends_with("HTTP/1.1"));
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [
            "GET /v1/users?page=2 HTTP/1.1",
            "POST /upload HTTP/1.1",
            "GET /v1/again HTTP/1.1"
        ]
    );
    let events = lock(&events);
    let denied = events
        .iter()
        .filter(|event| matches!(event, CarryEvent::Denied(_)));
    assert_eq!(denied.count(), 5, "{events:?}");
    let told = CarryEvent::Requested {
        method: "GET".into(),
        path: "/v1/users".into(),
        secrets: Vec::new(),
        rule: rules[0].parse().unwrap(),
    };
    assert!(events.contains(&told), "{events:?}");
}

#[tokio::test]
async fn later_request_for_another_host_is_denied() {
    let server = TestServer::start(HELLO).await;
    let port = server.port;
    let (egress, _file) = server.egress(&[format!("{NAME}:{port} http private")], true);
    let (code, _carry, _events) = start(&egress, port);
    let mut code = secure(&egress, code, &[]).await.unwrap();
    for (head, expected) in [
        (
            format!("GET / HTTP/1.1\r\nHost: {NAME}:{port}\r\n\r\n"),
            "200",
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: b.test:{port}\r\n\r\n"),
            "403",
        ),
        (
            format!("GET https://b.test:{port}/ HTTP/1.1\r\nHost: {NAME}:{port}\r\n\r\n"),
            "403",
        ),
        (
            format!(
                "GET / HTTP/1.1\r\nHost: {NAME}:{port}\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
            ),
            "403",
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: {NAME}:{port}\r\n\r\n"),
            "200",
        ),
    ] {
        let (status, body) = ask(&mut code, &head).await;
        assert!(status.contains(expected), "{head}: {status} {body}");
    }
    assert!(
        !server.received().contains("b.test"),
        "{}",
        server.received()
    );
}

#[tokio::test]
async fn request_inside_of_a_body_is_no_request() {
    let server = TestServer::start(HELLO).await;
    let port = server.port;
    let (egress, _file) = server.egress(&[format!("{NAME}:{port} http POST /a private")], true);
    let (code, _carry, _events) = start(&egress, port);
    let mut code = secure(&egress, code, &[]).await.unwrap();
    // By its length, the body ends after the first chunk, and a request for `/secret` follows.
    let inner = "GET /secret HTTP/1.1\r\nX: 1\r\n";
    let body = format!("{:x}\r\n{inner}\r\n0\r\n\r\n", inner.len());
    let request = format!(
        "POST /a HTTP/1.1\r\nHost: {NAME}:{port}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n{body}"
    );
    let (status, _) = ask(&mut code, &request).await;
    let received = server.received().to_lowercase();
    // It is sent on with one framing alone.
    assert!(status.contains("200"), "{status}: {received}");
    assert!(
        received.contains("transfer-encoding: chunked"),
        "{received}"
    );
    assert!(!received.contains("content-length"), "{received}");
    assert!(received.contains(&body.to_lowercase()), "{received}");
}

#[tokio::test]
async fn secret_is_put_into_requests_to_its_server_alone() {
    let server = TestServer::start(HELLO).await;
    let port = server.port;
    let (egress, _file) = server.egress(&[format!("{NAME}:{port} http private")], true);
    let secret = |host: String| PlaceholderSecret {
        name: "TOKEN".into(),
        value: sandbox_core::SecretValue::new("s3cret&x"),
        hosts: vec![host.parse().unwrap()],
    };
    for host in [
        "b.test".to_owned(),
        format!("b.test:{port}"),
        NAME.to_owned(),
    ] {
        let refused = egress.add_placeholder(secret(host)).unwrap_err();
        assert!(!refused.to_string().contains("s3cret"), "{refused}");
    }
    let text = egress
        .add_placeholder(secret(format!("{NAME}:{port}")))
        .unwrap();
    let (code, _carry, events) = start(&egress, port);
    let mut code = secure(&egress, code, &[]).await.unwrap();
    let host = format!("Host: {NAME}:{port}\r\n");
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let body = format!("grant=x&secret={text}\r\n\r\n");
    let length = body.len();
    for request in [
        format!("GET /?k={text} HTTP/1.1\r\n{host}Authorization: Bearer {text}\r\n\r\n"),
        format!("POST / HTTP/1.1\r\n{host}{form}Content-Length: {length}\r\n\r\n{body}"),
    ] {
        let (status, body) = ask(&mut code, &request).await;
        assert!(status.contains("200"), "{status} {body}");
    }
    let received = server.received();
    assert!(
        received.contains("GET /?k=s3cret%26x HTTP/1.1"),
        "{received}"
    );
    assert!(received.contains("Bearer s3cret&x"), "{received}");
    assert!(received.contains("grant=x&secret=s3cret%26x"), "{received}");
    assert!(!received.contains(&text), "{received}");
    for event in lock(&events).iter() {
        match event {
            CarryEvent::Requested { secrets, path, .. } => {
                assert_eq!((&secrets[..], &**path), (&["TOKEN".to_owned()][..], "/"));
            }
            event => assert!(matches!(event, CarryEvent::Connected(_)), "{event:?}"),
        }
    }
    egress.remove_placeholder(&text);
    let request = format!("GET / HTTP/1.1\r\n{host}Authorization: {text}\r\n\r\n");
    ask(&mut code, &request).await;
    assert!(server.received().contains(&text), "{}", server.received());
}

#[tokio::test]
async fn server_without_a_trusted_certificate_gets_no_request() {
    let server = TestServer::start(HELLO).await;
    let port = server.port;
    let (egress, _file) = server.egress(&[format!("{NAME}:{port} http private")], false);
    let (code, carry, _events) = start(&egress, port);
    let mut code = secure(&egress, code, &[]).await.unwrap();
    let request = format!("GET /secret HTTP/1.1\r\nHost: {NAME}:{port}\r\n\r\n");
    let (status, body) = ask(&mut code, &request).await;
    assert!(status.contains("502"), "{status}");
    assert!(body.contains("certificate"), "{body}");
    assert!(matches!(ended(carry).await, CarryEnd::Unreachable(_)));
    assert_eq!(server.received(), "");
}

#[tokio::test]
async fn plain_requests_are_judged_too() {
    let server = TestServer::start(HELLO).await;
    let port = server.port;
    let (egress, _file) = server.egress(&[format!("{NAME}:{port} http GET /a private")], true);
    let (mut code, _carry, _events) = start(&egress, port);
    for (path, expected) in [("/a", "200"), ("/b", "403"), ("/a", "200")] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {NAME}:{port}\r\n\r\n");
        let (status, _) = ask(&mut code, &request).await;
        assert!(status.contains(expected), "{path}: {status}");
    }
}

#[tokio::test]
async fn client_that_speaks_http2_alone_is_refused() {
    let server = TestServer::start(HELLO).await;
    let (egress, _file) = server.egress(&[format!("{NAME}:{} http private", server.port)], true);
    let (code, carry, _events) = start(&egress, server.port);
    assert!(secure(&egress, code, &["h2"]).await.is_err());
    ended(carry).await;
    assert_eq!(server.received(), "");
}

#[tokio::test]
async fn new_rules_end_a_request_that_they_deny_and_judge_the_next() {
    // An answer that never ends.
    let server = TestServer::start("HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\nx").await;
    let port = server.port;
    let rule = |path: &str| format!("{NAME}:{port} http GET {path} private");
    let (egress, _file) = server.egress(&[rule("/a"), rule("/b")], true);
    let open = async |path: &str| {
        let (code, carry, _) = start(&egress, port);
        let mut code = secure(&egress, code, &[]).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {NAME}:{port}\r\n\r\n");
        code.write_all(request.as_bytes()).await.unwrap();
        code.flush().await.unwrap();
        while code.read_u8().await.unwrap() != b'x' {}
        (code, carry)
    };
    let (_kept, kept) = open("/a").await;
    let (_code, revoked) = open("/b").await;
    let fewer = EgressRules::parse([rule("/a")]).unwrap();
    tokio::time::timeout(WAIT, egress.set(fewer))
        .await
        .expect("they end")
        .unwrap();
    let end = ended(revoked).await;
    assert!(
        matches!(&end, CarryEnd::Carried(carried) if carried.reason == EndReason::Revoked),
        "{end:?}"
    );
    assert!(!kept.is_finished());
    assert_eq!(egress.open_connections(), 1);
}

#[tokio::test]
async fn level_needs_an_authority_that_code_trusts() {
    let rules = EgressRules::parse(["a.test"]).unwrap();
    let egress = Egress::new(rules, NetworkPolicy::Full);
    assert_eq!(egress.trusted_certificates().await.unwrap(), None);
    let refused = egress
        .set(EgressRules::parse(["a.test http"]).unwrap())
        .await;
    assert!(refused.unwrap_err().to_string().contains("level http"));
    assert_eq!(egress.generation(), 0);
}

#[path = "aws_gateway_tests.rs"]
mod aws;
