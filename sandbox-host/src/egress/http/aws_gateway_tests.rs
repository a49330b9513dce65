//! Requests to AWS through the gateway. What a server must get is signed here from its literal
//! canonical request.

use ring::{digest, hmac};

use super::*;

const KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const DATE: &str = "20150830T123600Z";
const EMPTY_HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A sandbox with credentials for a host, and its server.
struct Aws {
    server: TestServer,
    egress: Arc<Egress>,
    _file: tempfile::NamedTempFile,
    id: String,
    key: String,
    token: String,
    events: Events,
    code: TlsStream<DuplexStream>,
}

impl Aws {
    async fn start(host: &str) -> Self {
        let server = TestServer::start(HELLO).await;
        let port = server.port;
        let rules = [NAME, "b.test"].map(|name| format!("{name}:{port} http private"));
        let (egress, file) = server.egress(&rules, true);
        let add = |name: &str, value: &str| {
            let secret = PlaceholderSecret {
                name: name.into(),
                value: sandbox_core::SecretValue::new(value),
                hosts: vec![format!("{host}:{port}").parse().unwrap()],
            };
            egress.add_placeholder(secret).unwrap()
        };
        let (id, key) = (add("ID", "AKIDREAL"), add("KEY", KEY));
        let token = add("TOKEN", "tok/en+=");
        let (code, _, events) = start(&egress, port);
        let code = secure(&egress, code, &[]).await.unwrap();
        Self {
            server,
            egress,
            _file: file,
            id,
            key,
            token,
            events,
            code,
        }
    }

    /// The `Host` header's value.
    fn host(&self) -> String {
        format!("{NAME}:{}", self.server.port)
    }

    async fn denied(&mut self, request: &str) -> String {
        let (status, body) = ask(&mut self.code, request).await;
        assert!(status.contains("403"), "{status} {body}");
        assert!(!body.contains(KEY), "{body}");
        let denied = lock(&self.events)
            .iter()
            .any(|event| matches!(event, CarryEvent::Denied(_)));
        assert!(denied);
        assert_eq!(self.server.received(), "");
        body
    }

    async fn allowed(&mut self, request: &str, secrets: &[&str]) -> String {
        let (status, body) = ask(&mut self.code, request).await;
        assert!(status.contains("200"), "{status} {body}");
        let events = lock(&self.events);
        let told = format!("{events:?}");
        for hidden in [KEY, "AKIDREAL", "tok/en", "tok%2Fen"] {
            assert!(!told.contains(hidden), "{told}");
        }
        let Some(CarryEvent::Requested { secrets: used, .. }) = events.last() else {
            panic!("{told}");
        };
        let mut used = used.clone();
        used.sort();
        assert_eq!(used, secrets);
        let received = self.server.received();
        for text in [&self.id, &self.key, &self.token] {
            assert!(!received.contains(text), "{received}");
        }
        received
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(text: &str) -> String {
    hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
}

/// The signature of a canonical request.
fn signature(key: &str, service: &str, canonical: &str) -> String {
    let mut derived = format!("AWS4{key}").into_bytes();
    let scope = format!("20150830/us-east-1/{service}/aws4_request");
    let hash = sha256(canonical);
    let text = format!("AWS4-HMAC-SHA256\n{DATE}\n{scope}\n{hash}");
    for part in scope.split('/').chain([&*text]) {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &derived);
        derived = hmac::sign(&key, part.as_bytes()).as_ref().to_vec();
    }
    hex(&derived)
}

fn authorization(id: &str, service: &str, names: &str, signature: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential={id}/20150830/us-east-1/{service}/aws4_request, \
         SignedHeaders={names}, Signature={signature}"
    )
}

const TOKEN_NAMES: &str = "host;x-amz-content-sha256;x-amz-date;x-amz-security-token";

/// A request for an object, by credentials with a token.
fn object(host: &str, id: &str, key: &str, token: &str) -> String {
    let canonical = format!(
        "GET\n/a%20b\na=1&b=2\nhost:{host}\nx-amz-content-sha256:{EMPTY_HASH}\nx-amz-date:{DATE}\n\
         x-amz-security-token:{token}\n\n{TOKEN_NAMES}\n{EMPTY_HASH}"
    );
    let authorization = authorization(id, "s3", TOKEN_NAMES, &signature(key, "s3", &canonical));
    format!(
        "GET /a%20b?b=2&a=1 HTTP/1.1\r\nHost: {host}\r\nX-Amz-Date: {DATE}\r\n\
         X-Amz-Content-SHA256: {EMPTY_HASH}\r\nX-Amz-Security-Token: {token}\r\n\
         Authorization: {authorization}\r\n\r\n"
    )
}

#[tokio::test]
async fn server_gets_a_request_that_is_signed_with_the_key() {
    let mut aws = Aws::start(NAME).await;
    let host = aws.host();
    let request = object(&host, &aws.id, &aws.key, &aws.token);
    let received = aws.allowed(&request, &["ID", "KEY", "TOKEN"]).await;
    let expected = object(&host, "AKIDREAL", KEY, "tok/en+=");
    let lines = |text: &str| {
        let lines = text.lines().map(str::to_owned);
        lines.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(lines(&received), lines(&expected));
}

#[tokio::test]
async fn server_gets_a_url_that_is_signed_with_the_key() {
    let mut aws = Aws::start(NAME).await;
    let host = aws.host();
    let url = |id: &str, key: &str, token: &str| {
        let query = format!(
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={id}%2F20150830%2Fus-east-1%2Fs3%2F\
             aws4_request&X-Amz-Date={DATE}&X-Amz-Expires=60&X-Amz-Security-Token={token}\
             &X-Amz-SignedHeaders=host"
        );
        let canonical = format!("GET\n/k\n{query}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD");
        let signature = signature(key, "s3", &canonical);
        format!("/k?{query}&X-Amz-Signature={signature}")
    };
    let sent = url(&aws.id, &aws.key, &aws.token);
    let request = format!("GET {sent} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let received = aws.allowed(&request, &["ID", "KEY", "TOKEN"]).await;
    let expected = url("AKIDREAL", KEY, "tok%2Fen%2B%3D");
    assert!(
        received.starts_with(&format!("GET {expected} HTTP/1.1\r\n")),
        "{received}"
    );
}

/// A request with a body, whose hash is signed in a header, or else with its length.
fn post(host: &str, id: &str, key: &str, body: &str, with_header: bool) -> String {
    let (hash, length) = (sha256(body), body.len());
    let (lines, names, header) = match with_header {
        true => (
            format!("host:{host}\nx-amz-content-sha256:{hash}"),
            "host;x-amz-content-sha256;x-amz-date",
            format!("x-amz-content-sha256: {hash}\r\n"),
        ),
        false => (
            format!("content-length:{length}\nhost:{host}"),
            "content-length;host;x-amz-date",
            String::new(),
        ),
    };
    let canonical = format!("POST\n/\n\n{lines}\nx-amz-date:{DATE}\n\n{names}\n{hash}");
    let signature = signature(key, "sts", &canonical);
    let authorization = authorization(id, "sts", names, &signature);
    format!(
        "POST / HTTP/1.1\r\nHost: {host}\r\nX-Amz-Date: {DATE}\r\n{header}\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\
         Authorization: {authorization}\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn hash_of_the_body_that_the_server_gets_is_signed() {
    for with_header in [true, false] {
        let mut aws = Aws::start(NAME).await;
        let host = aws.host();
        let body = |token: &str| format!("{{\"a\":\"{token}\"}}\r\n\r\n");
        let request = post(&host, &aws.id, &aws.key, &body(&aws.token), with_header);
        let received = aws.allowed(&request, &["ID", "KEY", "TOKEN"]).await;
        let expected = post(&host, "AKIDREAL", KEY, &body("tok/en+="), with_header);
        let (expected, body) = expected.split_once("\r\n\r\n").unwrap();
        for line in expected.lines() {
            let received = received.to_lowercase();
            assert!(
                received.contains(&line.to_lowercase()),
                "{line}: {received}"
            );
        }
        assert!(received.ends_with(body), "{received}");
        assert_eq!(received.contains("sha256: "), with_header, "{received}");
    }
}

#[tokio::test]
async fn chunked_body_is_read_for_its_hash() {
    let mut aws = Aws::start(NAME).await;
    let host = aws.host();
    let body = "x\r\n\r\n";
    let of = |key: &str| {
        let hash = sha256(body);
        let canonical =
            format!("POST\n/\n\nhost:{host}\nx-amz-date:{DATE}\n\nhost;x-amz-date\n{hash}");
        let signature = signature(key, "sqs", &canonical);
        authorization("AKID", "sqs", "host;x-amz-date", &signature)
    };
    let request = format!(
        "POST / HTTP/1.1\r\nHost: {host}\r\nX-Amz-Date: {DATE}\r\nTransfer-Encoding: chunked\r\n\
         Authorization: {}\r\n\r\n1\r\nx\r\n4\r\n\r\n\r\n\r\n0\r\n\r\n",
        of(&aws.key)
    );
    let received = aws.allowed(&request, &["KEY"]).await;
    assert!(received.contains(&of(KEY)), "{received}");
    assert!(
        received.to_lowercase().contains("content-length: 5\r\n"),
        "{received}"
    );
    assert!(received.ends_with(body), "{received}");
}

#[tokio::test]
async fn server_that_may_not_get_the_key_gets_nothing() {
    let mut aws = Aws::start("b.test").await;
    let host = aws.host();
    // The key alone is a secret.
    let request = object(&host, "AKID", &aws.key, "token");
    let body = aws.denied(&request).await;
    assert!(body.contains("the secret KEY is not"), "{body}");
}

#[tokio::test]
async fn signature_that_secrets_would_break_is_denied() {
    let mut aws = Aws::start(NAME).await;
    let host = aws.host();
    let request = object(&host, &aws.id, "another key", &aws.token);
    let body = aws.denied(&request).await;
    assert!(body.contains("AWS_SECRET_ACCESS_KEY"), "{body}");
    // The body is signed by its hash, with or without a header.
    for with_header in [true, false] {
        let body = format!("{{\"a\":\"{}\"}}\r\n\r\n", aws.token);
        let request = post(&host, "AKID", "own key", &body, with_header);
        let body = aws.denied(&request).await;
        assert!(body.contains("AWS_SECRET_ACCESS_KEY"), "{body}");
    }
    // Nothing is changed of a request of code's own credentials.
    let request = object(&host, "AKID", "own key", "own token");
    let received = aws.allowed(&request, &[]).await;
    let (_, own) = request.split_once("Authorization: ").unwrap();
    assert!(received.contains(own), "{received}");
}

#[tokio::test]
async fn body_that_is_too_long_to_be_signed_is_denied() {
    let mut aws = Aws::start(NAME).await;
    let host = aws.host();
    let length = bodies::MAX_WHOLE_BODY + 1;
    let authorization = authorization(&aws.id, "sqs", "host;x-amz-date", EMPTY_HASH);
    let head = format!(
        "POST / HTTP/1.1\r\nHost: {host}\r\nX-Amz-Date: {DATE}\r\n\
         Authorization: {authorization}\r\n"
    );
    // By its length, it is not even read.
    let request = format!("{head}Content-Length: {length}\r\n\r\n");
    let body = aws.denied(&request).await;
    assert!(body.contains("x-amz-content-sha256"), "{body}");
    let (code, _carry, _events) = start(&aws.egress, aws.server.port);
    aws.code = secure(&aws.egress, code, &[]).await.unwrap();
    let content = "x".repeat(length);
    let request =
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{content}\r\n0\r\n\r\n");
    let body = aws.denied(&request).await;
    assert!(body.contains("x-amz-content-sha256"), "{body}");
}
