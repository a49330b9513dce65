//! Secrets that only a host gets.

use sandbox_core::ExecRequest;
use sandbox_core::policy::{EgressRules, NetworkPolicy};

use super::offered;
use crate::egress_server::EgressServer;
use crate::host_fixture::random_name;
use crate::name_server::OPEN;
use crate::probes::prelude::*;

/// The variable with the secret.
pub(super) const SECRET: &str = "PROBE_KEY";

const PROGRAM: &str = include_str!("secret.py");

/// How code uses the secret, in one request or several.
#[derive(Clone, Copy)]
pub(super) enum Use {
    /// It sends it in a header.
    Header,
    /// It sends it wherever the host looks for it.
    Everywhere,
    /// It signs a request with it, as the SDKs of AWS do, and another one in its query.
    Signature,
}

impl Use {
    /// Requests with the secret, which its host gets and another one does not.
    pub(super) fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::Header => &["header"],
            Self::Everywhere => &["header", "basic", "query", "form", "json"],
            Self::Signature => &[
                "signature",
                "presigned",
                "sent-path",
                "normalized-path",
                "encoded-path",
                "signed-query",
                "signed-header",
                "signed-body",
                "secret-in-signed-body",
                "presigned-for-s3",
                "own-beside-secret",
            ],
        }
    }

    /// Requests that no host gets, because the host of the sandbox would break their signature.
    fn refused(self) -> &'static [&'static str] {
        match self {
            Self::Header | Self::Everywhere => &[],
            Self::Signature => &[
                "own-over-secret",
                "own-over-body",
                "chunks",
                "other-algorithm",
                "no-date",
                "two",
            ],
        }
    }

    /// Requests without a secret, which every host gets.
    fn without(self) -> &'static [&'static str] {
        match self {
            Self::Header | Self::Everywhere => &[],
            Self::Signature => &["own"],
        }
    }

    /// Requests that reach the secret's host.
    fn passed(self) -> Vec<&'static str> {
        [self.kinds(), self.without()].concat()
    }
}

/// The program's words for requests to a host.
pub(super) fn targets(kinds: &[&str], name: &str, marker: &str) -> Vec<String> {
    let target = |kind| format!("{kind}={name}={marker}");
    kinds.iter().map(target).collect()
}

/// Two names lead to the same server, and each has a rule at level `http`.
pub(super) fn with_secret() -> SandboxSetup {
    let port = EgressServer::get().secure;
    let rules = [owner(), another()].map(|name| format!("{name}:{port} http private"));
    let rules = EgressRules::parse(rules.iter().map(String::as_str));
    let rules = rules.expect("the suite's own rules").into_rules();
    SandboxSetup::with(|policy| {
        policy.network = Some(NetworkPolicy::Allow(rules));
        policy.secrets = vec![SECRET.to_owned()];
    })
}

/// A name that the suite's name server knows, and whose host gets the secret.
pub(super) fn owner() -> String {
    format!("owner.{OPEN}")
}

/// A name whose host does not.
fn another() -> String {
    format!("another.{OPEN}")
}

pub(super) async fn arrives_at_its_host(
    context: &mut ProbeContext,
    kind: Use,
) -> Result<(), ProbeError> {
    crate::name_server::started()?;
    let token = context.token().to_owned();
    let port = EgressServer::get().secure;
    // A query, a form and JSON write the last two in other ways.
    let value = format!("secret-{}&\"", random_name());
    let [host, code, denied] = ["host", "code", "denied"].map(|word| format!("{token}-{word}."));
    let wanted = host_sends(context, kind, &value, &host).await;
    if !offered(context).await {
        return Ok(());
    }
    let (passed, refused) = (kind.passed(), kind.refused());
    let to_owner = [&passed, refused].concat();
    let to_another = [kind.kinds(), refused].concat();
    let requests = [
        targets(&to_owner, &owner(), &code),
        targets(&to_another, &another(), &denied),
    ];
    let expected = [
        vec!["200"; passed.len()],
        vec!["403"; refused.len() + to_another.len()],
    ];
    let request = sending(&requests.concat());
    let request = request.secret_for(SECRET, &*value, [format!("{}:{port}", owner())]);
    feature(context, "send the secret to two hosts", async |sandbox| {
        let result = sandbox.handle().exec(&request).await?;
        let printed = result.stdout_text();
        let lines: Vec<_> = printed.lines().collect();
        let arrived = arrived(&code);
        let Some((shown, statuses)) = lines.split_last().filter(|_| result.success()) else {
            let output = result.output();
            return Ok(Some(format!("{}: {output}", result.outcome)));
        };
        Ok(if *shown == value {
            Some("code sees the value".to_owned())
        } else if arrived != wanted {
            Some(format!("the host got {arrived:?} instead of {wanted:?}"))
        } else if statuses != expected.concat() {
            Some(format!("the answers are {statuses:?}"))
        } else {
            None
        })
    })
    .await;
    let untouched = !EgressServer::has_received(&denied);
    context.check_host("messages to the host without the secret", untouched);
    Ok(())
}

/// Host control: the host's Python sends the secret. Returns what arrives.
pub(super) async fn host_sends(
    context: &mut ProbeContext,
    kind: Use,
    value: &str,
    marker: &str,
) -> Vec<String> {
    let run = tokio::process::Command::new("/usr/bin/python3")
        .args(arguments(&targets(&kind.passed(), &owner(), marker)))
        .env(SECRET, value)
        .env("PROBE_SERVER", "127.0.0.1")
        .output()
        .await;
    let arrived = arrived(marker);
    let failure = match run {
        Ok(run) if run.status.success() && arrived.len() == kind.passed().len() => None,
        Ok(run) => Some(String::from_utf8_lossy(&run.stderr).into_owned()),
        Err(error) => Some(error.to_string()),
    };
    context.record_host_control(control("the host's Python sends the secret", failure));
    arrived
}

fn arguments(targets: &[String]) -> Vec<String> {
    let port = EgressServer::get().secure.to_string();
    let first = ["-c", PROGRAM, &port].map(str::to_owned);
    [&first[..], targets].concat()
}

pub(super) fn sending(targets: &[String]) -> ExecRequest {
    ExecRequest::new("python3").args(arguments(targets))
}

/// What [`arrived`] returns for a request of [`Use::Header`].
pub(super) fn with_authorization(value: &str) -> String {
    format!("GET / HTTP/1.1 {value} ")
}

/// The first lines of the messages with this marker, their `Authorization` headers and their bodies.
pub(super) fn arrived(marker: &str) -> Vec<String> {
    let messages = EgressServer::messages(marker);
    let messages = messages.iter().map(|message| {
        let (head, body) = message.split_once("\r\n\r\n").unwrap_or((message, ""));
        let mut lines = head.lines();
        let first = lines.next().unwrap_or_default();
        let header = lines.find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("authorization").then_some(value)
        });
        format!("{first} {} {body}", header.unwrap_or_default())
    });
    messages.collect()
}
