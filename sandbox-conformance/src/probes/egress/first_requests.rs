//! First requests under rules at level `name`: which clients ask for the name that they connect to.

use super::exchanges::{self, Exchange, Transport};
use super::messages::Hello;
use super::{names, rules};
use crate::egress_server::EgressServer;
use crate::name_server::OPEN;
use crate::probes::prelude::*;

/// The name that each client connects to.
const NAME: &str = "a.n.open.test";

/// What a client sends. `#` stands for the port.
#[derive(Debug, Clone, Copy)]
enum First {
    /// A request: its line without the version, and its headers.
    Http(&'static str, &'static [&'static str]),
    /// The same with lines that end with a line feed alone.
    Lines(&'static str, &'static [&'static str]),
    Tls(Hello),
    /// Neither of both.
    Other(&'static str),
}

use First::{Http, Lines, Other, Tls};

/// First messages, and whether they are carried.
const ROWS: &[(First, bool)] = &[
    (Http("GET /", &["Host: a.n.open.test"]), true),
    (Http("GET /", &["Host: a.n.open.test:#"]), true),
    (Http("GET /", &["hOST: A.n.OPEN.test."]), true),
    (Http("POST /x?y", &["X: 1", "Host:a.n.open.test"]), true),
    (
        Http("GET http://a.n.open.test/x", &["Host: a.n.open.test"]),
        true,
    ),
    (
        Http("GET HTTP://a.n.open.test:#", &["Host: a.n.open.test"]),
        true,
    ),
    (Http("OPTIONS *", &["Host: a.n.open.test"]), true),
    (Http("GET /", &["Host: b.n.open.test"]), false),
    (Http("GET /", &["Host: n.open.test"]), false),
    (Http("GET /", &["Host: x.a.n.open.test"]), false),
    (Http("GET /", &["Host: a.n.open.test:1"]), false),
    (Http("GET /", &["Host: x@a.n.open.test"]), false),
    (Http("GET /", &["Host: "]), false),
    (Http("GET /", &["X-Host: a.n.open.test"]), false),
    (
        Http("GET /", &["Host: a.n.open.test", "Host: a.n.open.test"]),
        false,
    ),
    (
        Http("GET /", &["Host: a.n.open.test", "Host: b.n.open.test"]),
        false,
    ),
    (
        Http("GET http://b.n.open.test/", &["Host: a.n.open.test"]),
        false,
    ),
    (
        Http("GET http://a.n.open.test:1/", &["Host: a.n.open.test"]),
        false,
    ),
    (
        Http("GET https://a.n.open.test/", &["Host: a.n.open.test"]),
        false,
    ),
    (Http("GET b.n.open.test/", &["Host: a.n.open.test"]), false),
    (
        Http("CONNECT a.n.open.test:#", &["Host: a.n.open.test"]),
        false,
    ),
    (Lines("GET /", &["Host: a.n.open.test"]), false),
    (Tls(Hello::Named("a.n.open.test")), true),
    (Tls(Hello::Named("A.n.open.TEST")), true),
    (Tls(Hello::Named("b.n.open.test")), false),
    (Tls(Hello::Named("n.open.test")), false),
    (Tls(Hello::Named("x.a.n.open.test")), false),
    (Tls(Hello::Named("a.n.open.tes")), false),
    (Tls(Hello::Twice("a.n.open.test", "b.n.open.test")), false),
    (Tls(Hello::Twice("a.n.open.test", "a.n.open.test")), false),
    (Tls(Hello::InRecords("a.n.open.test")), true),
    (Tls(Hello::InRecords("b.n.open.test")), false),
    (Tls(Hello::Unnamed), false),
    (Other("ssh-2.0-x"), false),
    (Other("get / HTTP/1.1"), false),
    (Other("\x17\x03\x03"), false),
];

/// What a client reads that was refused, in its own protocol.
const ALERT: &[u8] = &[21, 3, 3, 0, 2, 2, 49];

/// Rules for the [`ROWS`].
pub(super) fn asking() -> SandboxSetup {
    let server = EgressServer::get();
    rules(&[
        format!("*.{OPEN}:{} tcp private", server.open),
        format!("*.n.{OPEN}:{} name private", server.named),
    ])
}

pub(super) async fn compare(context: &mut ProbeContext) -> Result<(), ProbeError> {
    if !names::prepared(context).await? {
        return Ok(());
    }
    let token = context.token().to_owned();
    let marker = |number: usize| format!("{token}-{number}.");
    let port = EgressServer::get().named;
    // Each is sent as a whole, and in two pieces.
    let exchanges: Vec<_> = ROWS
        .iter()
        .enumerate()
        .flat_map(|(number, (first, _))| {
            let message = first.bytes(&marker(number), port);
            let whole = Exchange::new(Transport::Stream, NAME, port, message);
            [whole.clone(), whole.cut(4)]
        })
        .collect();
    let deviation = exchanges::make(context, &exchanges).await.map(|answers| {
        let answers = answers.chunks(2);
        let mut rows = ROWS.iter().enumerate().zip(answers);
        rows.find_map(|((number, (first, is_carried)), answers)| {
            let is_right = answers.iter().all(|answer| match is_carried {
                true => answer.bytes == b"here",
                false => first.is_refusal(&answer.bytes),
            });
            let arrived = EgressServer::count(&marker(number));
            let expected = if *is_carried { answers.len() } else { 0 };
            (!is_right || arrived != expected).then(|| {
                let answers: Vec<_> = answers
                    .iter()
                    .map(exchanges::ExchangeAnswer::text)
                    .collect();
                format!("{first:?}: {arrived} arrived, {answers:?}")
            })
        })
    });
    context.record_attack(behavior("make first requests at level name", deviation));
    context.no_host_effect("the attack itself reads what the server gets");
    Ok(())
}

impl First {
    fn bytes(self, marker: &str, port: u16) -> Vec<u8> {
        let head = |line: &str, headers: &[&str], end: &str| {
            let probe = format!("X-Probe: {marker}");
            let line = format!("{line} HTTP/1.1");
            let lines = [line.as_str(), &probe].into_iter();
            let lines = lines.chain(headers.iter().copied()).chain([""]);
            let head: String = lines.map(|line| format!("{line}{end}")).collect();
            head.replace('#', &port.to_string()).into_bytes()
        };
        match self {
            Http(line, headers) => head(line, headers, "\r\n"),
            Lines(line, headers) => head(line, headers, "\n"),
            Tls(hello) => hello.bytes(marker),
            Other(text) => format!("{text}\r\n{marker}\r\n\r\n").into_bytes(),
        }
    }

    /// Whether this is how the client is refused.
    fn is_refusal(self, answer: &[u8]) -> bool {
        match self {
            Http(..) | Lines(..) => {
                let text = String::from_utf8_lossy(answer);
                text.starts_with("HTTP/1.1 403 ") && text.contains("sandbox: ")
            }
            Tls(_) => answer == ALERT,
            Other(_) => answer.is_empty(),
        }
    }
}
