//! What is recorded and told about connections and requests.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use sandbox_core::policy::EgressRules;
use sandbox_core::spi::unique_name;
use sandbox_core::{DenialKind, ExecRequest, SandboxHandle, Stdin};
use serde_json::{Value, json};

use super::exchanges::{self, Exchange, Transport};
use super::messages::digits;
use super::{names, rules};
use crate::egress_server::EgressServer;
use crate::name_server::OPEN;
use crate::probes::prelude::*;
use crate::probes::procedures::Deviation;
use crate::probes::records::{Records, within_patience};
use crate::program::PROGRAM;

/// A name that nobody resolves.
const NOWHERE: &str = "nowhere.test";

/// The host of a connection that is open when the sandbox ends.
const HELD: &str = "held";

/// The most characters of a path in a record.
const LONGEST_PATH: usize = 1024;

/// Rules of several levels.
pub(super) fn recorded() -> SandboxSetup {
    rules(&asked_rules())
}

/// The rules of the policy, which are also asked for again.
fn asked_rules() -> [String; 6] {
    let [tcp, name, http, nowhere] = all_rules();
    let held = format!("{HELD}.{OPEN}:{} private", EgressServer::get().held);
    [tcp, name, http, nowhere, held, format!("!closed.{OPEN}")]
}

fn all_rules() -> [String; 4] {
    let server = EgressServer::get();
    [
        format!("*.{OPEN}:{} private", server.open),
        format!("name.{OPEN}:{} name private", server.named),
        format!(
            "http.{OPEN}:{} http GET,POST /allowed/* private",
            server.read
        ),
        format!("{NOWHERE}:{}", server.public),
    ]
}

pub(super) async fn compare(context: &mut ProbeContext) -> Result<(), ProbeError> {
    if !names::prepared(context).await? {
        return Ok(());
    }
    let exchanges = exchanges_of(context.token());
    let expected = expected(&exchanges);
    let deviation = match recorded_run(context, &exchanges).await {
        Ok(RecordedRun {
            found,
            told,
            open_at_end,
        }) => {
            let denied = expected.iter().filter(|text| text.starts_with("denied "));
            let denied: Vec<_> = denied.cloned().collect();
            let differs = difference(&found, &expected).or_else(|| difference(&told, &denied));
            let differs = differs.or(open_at_end);
            Ok(differs)
        }
        Err(attempt) => Err(attempt),
    };
    context.record_attack(behavior("connect, and read the records", deviation));
    context.no_host_effect("records do not affect the host");
    Ok(())
}

/// What two sorted lists do not share.
fn difference(found: &[String], expected: &[String]) -> Option<String> {
    let without = |all: &[String], others: &[String]| {
        let left = all.iter().filter(|text| !others.contains(text));
        left.cloned().collect::<Vec<_>>()
    };
    let (more, less) = (without(found, expected), without(expected, found));
    let counts = (found.len(), expected.len());
    (found != expected).then(|| format!("{counts:?} records: {more:?} instead of {less:?}"))
}

fn request(line: &str, host: &str, marker: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: {host}\r\nX-Probe: {marker}\r\nConnection: close\r\n\r\n")
}

/// In the order of their expected records.
fn exchanges_of(token: &str) -> Vec<Exchange> {
    let server = EgressServer::get();
    let ended = |host: &str, port, message: String| {
        Exchange::new(Transport::EndedStream, host, port, message)
    };
    let marker = format!("{token}-told.");
    let (tcp, name) = (format!("tcp.{OPEN}"), format!("name.{OPEN}"));
    let http = format!("http.{OPEN}");
    let long = "x".repeat(LONGEST_PATH + 100);
    vec![
        ended(&tcp, server.open, marker.clone()),
        ended(&name, server.named, request("GET /", &name, &marker)),
        ended(&name, server.named, request("GET /", "other.test", &marker)),
        ended(
            &http,
            server.read,
            request("GET /allowed/a?key=1", &http, &marker),
        ),
        ended(
            &http,
            server.read,
            request("POST /allowed/?/b", &http, &marker),
        ),
        ended(
            &http,
            server.read,
            request(&format!("GET /allowed/{long}"), &http, &marker),
        ),
        ended(
            &http,
            server.read,
            request("GET /denied/c?key=1", &http, &marker),
        ),
        ended(NOWHERE, server.public, marker),
    ]
}

/// The records, sorted.
fn expected(exchanges: &[Exchange]) -> Vec<String> {
    let server = EgressServer::get();
    let [tcp, name, http, _] = all_rules();
    let place = |label: &str, port: u16| format!("{label}.{OPEN}:{port}");
    let connection = |label: &str, port: u16, rule: &str| {
        let place = place(label, port);
        format!("connection {place} 127.0.0.1:{port} by {rule} finished")
    };
    let at_http = place("http", server.read);
    let at_name = place("name", server.named);
    let asked = |request: &str| format!("request {at_http} {request} by {http}");
    let long = "x".repeat(LONGEST_PATH - "/allowed/".len());
    let carried = exchanges[0].length();
    let mut all = vec![
        format!("{} {carried} 4", connection("tcp", server.open, &tcp)),
        connection("name", server.named, &name),
        format!(
            "denied network egress = {name}: a connection to {at_name} was denied: its HTTP request \
             asks for the host other.test"
        ),
        asked("GET /allowed/a"),
        asked("POST /allowed/"),
        asked(&format!("GET /allowed/{long}")),
        format!(
            "denied network egress = {http}: a connection to {at_http} was denied: the rule {http} \
             does not allow the request GET /denied/c?key=1"
        ),
        format!("unreachable {NOWHERE}:{}", server.public),
        format!("rules {}", json!(asked_rules())),
    ];
    let connections = std::iter::repeat_n(connection("http", server.read, &http), 4);
    all.extend(connections);
    all.sort();
    all
}

struct RecordedRun {
    /// The records, sorted.
    found: Vec<String>,
    /// The denials that are told with the result, sorted.
    told: Vec<String>,
    /// What is wrong with the record of a connection that is open when the sandbox ends.
    open_at_end: Option<String>,
}

/// Makes the exchanges in a sandbox of an audited client.
async fn recorded_run(
    context: &mut ProbeContext,
    exchanges: &[Exchange],
) -> Result<RecordedRun, Attempt> {
    let (client, spec) = context.client_and_spec().await?;
    let (client, records) = Records::of(client);
    let program = format!("{}/{}", context.fixture().inside(), unique_name("probe"));
    let unclear = |error: sandbox_core::Error| Attempt::unclear(error.to_string());
    let sandbox = client.create(&spec).await.map_err(unclear)?;
    let run = run(&sandbox, &program, exchanges, &records).await;
    let marker = format!("{}-open.", context.token());
    let open_at_end = end_with_connection(&sandbox, &program, &marker, &records).await;
    let ended = sandbox.kill().await;
    let (found, told) = run.map_err(unclear)?;
    ended.map_err(unclear)?;
    Ok(RecordedRun {
        found,
        told,
        open_at_end: open_at_end.map_err(unclear)?,
    })
}

/// Ends the sandbox while a connection is open, and looks for its record.
async fn end_with_connection(
    sandbox: &SandboxHandle,
    program: &str,
    marker: &str,
    records: &Records,
) -> Deviation {
    let port = EgressServer::get().held;
    let host = format!("{HELD}.{OPEN}");
    let message = digits(marker.as_bytes());
    let call = Call::new(["tcp-held", "600", &message, &host, &port.to_string()]);
    let request = ExecRequest::new(program).args(arguments(&call, program));
    let execution = sandbox.start(&request, Stdin::Null).await?;
    if !within_patience(|| EgressServer::has_received(marker)).await {
        return Ok(Some("the held connection sent nothing".to_owned()));
    }
    sandbox.kill().await?;
    drop(execution);
    let start = format!("connection {host}:{port} ");
    // The end of its program may reset it before the sandbox has ended.
    let is_recorded = || {
        let all = all_described(records);
        all.iter().any(|line| line.starts_with(&start))
    };
    let recorded = within_patience(is_recorded).await;
    Ok((!recorded).then(|| "no record of the connection that was open at the end".to_owned()))
}

fn arguments<'a>(call: &'a Call, program: &'a str) -> impl Iterator<Item = &'a OsStr> {
    let arguments = call.arguments_for(program.as_bytes());
    arguments.map(OsStr::from_bytes)
}

async fn run(
    sandbox: &SandboxHandle,
    program: &str,
    exchanges: &[Exchange],
    records: &Records,
) -> sandbox_core::Result<(Vec<String>, Vec<String>)> {
    sandbox.upload(program, 0o755, PROGRAM).await?;
    sandbox
        .set_egress(EgressRules::parse(asked_rules())?)
        .await?;
    let call = exchanges::call(exchanges);
    let request = ExecRequest::new(program).args(arguments(&call, program));
    let result = sandbox.exec(&request).await?;
    let mut told: Vec<String> = result
        .denials
        .iter()
        .filter(|denial| denial.kind == DenialKind::Network)
        .map(|denial| format!("denied network {}: {}", denial.rule, denial.what))
        .collect();
    told.sort();
    let wanted = expected(exchanges).len();
    within_patience(|| all_described(records).len() >= wanted).await;
    let mut found = all_described(records);
    found.sort();
    Ok((found, told))
}

fn all_described(records: &Records) -> Vec<String> {
    records.all().iter().filter_map(described).collect()
}

/// A record about connections as one line.
fn described(record: &Value) -> Option<String> {
    let text = |field: &str| record[field].as_str().unwrap_or("none");
    let number = |field: &str| record[field].to_string();
    let place = format!("{}:{}", text("host"), number("port"));
    Some(match text("event") {
        "connection" => {
            let line = format!(
                "connection {place} {} by {} {}",
                text("address"),
                text("rule"),
                text("end")
            );
            // The host writes requests anew, so their length is its own.
            match text("rule").contains(" http ") || text("rule").contains(" name ") {
                true => line,
                false => format!("{line} {} {}", number("sent"), number("received")),
            }
        }
        "request" => format!(
            "request {place} {} {} by {}",
            text("method"),
            text("path"),
            text("rule")
        ),
        "denied" => format!("denied {} {}: {}", text("kind"), text("rule"), text("what")),
        "unreachable" => format!("unreachable {place}"),
        "rules_changed" => format!("rules {}", record["rules"]),
        _ => return None,
    })
}
