//! Requests under rules at level `http`: which are allowed, and what their server gets.

use sandbox_core::policy::EgressRules;

use super::exchanges::{self, Exchange, ExchangeAnswer, Transport};
use super::{names, rules};
use crate::egress_server::EgressServer;
use crate::name_server::OPEN;
use crate::probes::prelude::*;

/// A request: its line without the version, and its headers. `@` stands for the name with the port,
/// in the line and as the value of `Host`.
type Line = (&'static str, &'static [&'static str]);

/// A connection to a label below [`OPEN`]: its requests, and which of them are allowed.
type Row = (&'static str, &'static [(Line, bool)]);

const HOST: &[&str] = &["Host: @"];

/// A connection with one request.
macro_rules! one {
    ($label:literal, $line:literal, $allowed:literal) => {
        ($label, &[(($line, HOST), $allowed)])
    };
}

/// A connection with an allowed request before the one of the row. The check of a first request at
/// level `name` then does not answer for the one of level `http`.
macro_rules! second {
    ($line:literal, $headers:expr, $allowed:literal) => {
        (
            "api",
            &[
                (("GET /v1/first", HOST), true),
                (($line, $headers), $allowed),
            ],
        )
    };
}

const ROWS: &[Row] = &[
    one!("api", "GET /v1/", true),
    one!("api", "GET /v1/a/b", true),
    one!("api", "GET /v1/a%20b", true),
    one!("api", "GET /v1/x?y=/../..&z=%2f", true),
    one!("api", "DELETE /v1/x", true),
    one!("api", "GET /health", true),
    one!("api", "GET /health?x=1", true),
    one!("api", "POST /v1/x", false),
    one!("api", "GETX /v1/x", false),
    one!("api", "GET /v1", false),
    one!("api", "GET /V1/x", false),
    one!("api", "GET /%76%31/x", false),
    one!("api", "GET /v2/v1/x", false),
    one!("api", "GET /health/", false),
    one!("api", "GET /healthy", false),
    one!("api", "GET /v1/./x", false),
    one!("api", "GET /v1//x", false),
    one!("api", "GET /v1/a%2Fb", false),
    one!("api", "GET /v1/a%5cb", false),
    one!("api", "GET /?/v1/x", false),
    // A rule without methods and paths allows every request.
    one!("any", "POST /a", true),
    one!("any", "GET /a/../b", true),
    one!("any", "GET /a//b%2f", true),
    // Either of two rules suffices, and each for its own requests.
    one!("two", "GET /a", true),
    one!("two", "POST /b/x", true),
    one!("two", "POST /a", false),
    one!("two", "GET /b/x", false),
    // The rule that checks the least applies.
    one!("least", "POST /b", true),
    second!("get /v1/x", HOST, false),
    second!("CONNECT @", HOST, false),
    second!("GET /v1/x", &["Host: api.open.test"], true),
    second!("GET /v1/x", &["Host: API.open.TEST."], true),
    second!("GET /v1/x", &["Host: any.open.test"], false),
    second!("GET /v1/x", &["Host: api.open.test:1"], false),
    second!("GET /v1/x", &["Host: x@api.open.test"], false),
    second!("GET /v1/x", &["Host: @", "Host: any.open.test"], false),
    second!("GET /v1/x", &["X-None: x"], false),
    second!("GET http://@/v1/x", HOST, true),
    second!("GET http://any.open.test/v1/x", HOST, false),
    second!("GET https://@/v1/x", HOST, false),
    second!("GET http://@/v2/x", HOST, false),
    second!(
        "GET /v1/x",
        &["Host: @", "Connection: Upgrade", "Upgrade: WebSocket"],
        false
    ),
    // Also where a rule allows every request.
    (
        "any",
        &[(("GET /first", HOST), true), (("CONNECT @", HOST), false)],
    ),
    // The connection lives on after a denied request.
    (
        "api",
        &[
            (("GET /v1/a", HOST), true),
            (("GET /v2/b", HOST), false),
            (("PUT /v1/c", HOST), false),
            (("GET /v1/d", HOST), true),
        ],
    ),
];

/// Rules for the [`ROWS`].
fn all_rules() -> [String; 7] {
    let server = EgressServer::get();
    let port = server.read;
    [
        format!("*.{OPEN}:{} tcp private", server.open),
        format!("api.{OPEN}:{port} http GET,DELETE /v1/* /health private"),
        format!("any.{OPEN}:{port} http private"),
        format!("two.{OPEN}:{port} http GET /a private"),
        format!("two.{OPEN}:{port} http POST /b/* private"),
        format!("least.{OPEN}:{port} http GET /a private"),
        format!("least.{OPEN}:{port} tcp private"),
    ]
}

pub(super) fn judging() -> SandboxSetup {
    rules(&all_rules())
}

/// A sandbox that begins without a rule at level `http`, and may get those of [`judging`].
pub(super) fn judging_later() -> SandboxSetup {
    let [first, ..] = all_rules();
    SandboxSetup {
        egress: Some(vec![first]),
        ..judging().fresh()
    }
}

pub(super) async fn compare(context: &mut ProbeContext) -> Result<(), ProbeError> {
    if !names::prepared(context).await? {
        return Ok(());
    }
    let deviation = wrong_row(context).await;
    context.record_attack(behavior("make requests at level http", deviation));
    context.no_host_effect("the attack itself reads what the server gets");
    Ok(())
}

pub(super) async fn compare_later(context: &mut ProbeContext) -> Result<(), ProbeError> {
    if !names::prepared(context).await? {
        return Ok(());
    }
    let all = all_rules();
    let changed = context.with_sandbox(async |sandbox| {
        let rules = EgressRules::parse(all.iter().map(String::as_str))?;
        sandbox.handle().set_egress(rules).await
    });
    let changed = changed.await;
    let deviation = match if_offered(context, changed) {
        Ok(()) => wrong_row(context).await,
        Err(attempt) => Err(attempt),
    };
    context.record_attack(behavior("add rules and make requests", deviation));
    context.no_host_effect("the attack itself reads what the server gets");
    Ok(())
}

/// Makes the connections, and returns the first one that ended otherwise.
async fn wrong_row(context: &mut ProbeContext) -> Result<Option<String>, Attempt> {
    let token = context.token().to_owned();
    let connections: Vec<Exchange> = ROWS
        .iter()
        .enumerate()
        .map(|(number, row)| connection(&token, number, row))
        .collect();
    let answers = exchanges::make(context, &connections).await?;
    let mut rows = ROWS.iter().enumerate().zip(&answers);
    Ok(rows.find_map(|((number, row), answer)| {
        let wrong = wrong(&token, number, row, answer)?;
        Some(format!("{row:?}: {wrong}: {}", answer.text()))
    }))
}

/// The marker of a request.
fn marker(token: &str, row: usize, request: usize) -> String {
    format!("{token}-{row}x{request}.")
}

fn connection(token: &str, number: usize, (label, requests): &Row) -> Exchange {
    let port = EgressServer::get().read;
    let host = format!("{label}.{OPEN}");
    let place = format!("{host}:{port}");
    let mut message = String::new();
    for (index, ((line, headers), _)) in requests.iter().enumerate() {
        let line = line.replace('@', &place);
        message += &format!("{line} HTTP/1.1\r\n");
        for header in *headers {
            let header = match *header {
                "Host: @" => format!("Host: {place}"),
                other => other.to_owned(),
            };
            message += &format!("{header}\r\n");
        }
        message += &format!("X-Probe: {}\r\n", marker(token, number, index));
        let is_last = index + 1 == requests.len();
        let has_one = headers
            .iter()
            .any(|header| header.starts_with("Connection"));
        if is_last && !has_one {
            message += "Connection: close\r\n";
        }
        message += "\r\n";
    }
    // The end of the client's side ends the connection where a request keeps it.
    Exchange::new(Transport::EndedStream, host, port, message)
}

/// What is wrong with the answers to a connection, and with what its server got.
fn wrong(
    token: &str,
    number: usize,
    (label, requests): &Row,
    answer: &ExchangeAnswer,
) -> Option<&'static str> {
    let text = String::from_utf8_lossy(&answer.bytes);
    let status = |part: &str| part.get(..3).and_then(|code| code.parse::<u16>().ok());
    let statuses = text.split("HTTP/1.1 ").skip(1).map(status);
    let expected = requests.iter().map(|(_, allowed)| match allowed {
        true => Some(200),
        false => Some(403),
    });
    if !statuses.eq(expected) {
        return Some("other statuses");
    }
    let reasons = text.matches("sandbox: ").count();
    if reasons != requests.iter().filter(|(_, allowed)| !allowed).count() {
        return Some("no reason for each refusal");
    }
    let host = format!("{label}.{OPEN}:{}", EgressServer::get().read);
    for (index, ((line, _), allowed)) in requests.iter().enumerate() {
        let got = EgressServer::messages(&marker(token, number, index));
        let is_right = match (&got[..], allowed) {
            ([one], true) => {
                let line = line.replace("http://@", "");
                one.starts_with(&format!("{line} HTTP/1.1\r\n"))
                    && one
                        .to_ascii_lowercase()
                        .contains(&format!("\r\nhost: {host}\r\n"))
            }
            (got, false) => got.is_empty(),
            _ => false,
        };
        if !is_right {
            return Some("the server got something else");
        }
    }
    None
}
