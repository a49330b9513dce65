//! Secrets that only a host gets.

use sandbox_core::policy::{EgressRules, NetworkPolicy};
use sandbox_core::{ExecRequest, SandboxHandle};

use super::offered;
use crate::egress_server::EgressServer;
use crate::host_fixture::random_name;
use crate::name_server::OPEN;
use crate::probes::detached::{LIFETIME, in_detached};
use crate::probes::prelude::*;

/// The variable with the secret.
const SECRET: &str = "PROBE_KEY";

/// Sends one request with the secret to each host, as a header or as the key of a signature, and
/// prints the status of each answer and the variable. Only sandboxes know the names of the hosts, so
/// the host control sets `PROBE_SERVER`.
const PROGRAM: &str = "
import hashlib, hmac, http.client, os, socket, sys
kind, port = sys.argv[1:3]
key = os.environ['PROBE_KEY']
sha256 = lambda text: hashlib.sha256(text.encode()).hexdigest()
def signed(host):
    date, scope = '20150830T123600Z', '20150830/us-east-1/sts/aws4_request'
    lines = f'host:{host}\\nx-amz-date:{date}\\n\\nhost;x-amz-date'
    canonical = f'GET\\n/\\n\\n{lines}\\n{sha256(\"\")}'
    derived = ('AWS4' + key).encode()
    for part in scope.split('/') + ['\\n'.join(['AWS4-HMAC-SHA256', date, scope, sha256(canonical)])]:
        derived = hmac.new(derived, part.encode(), hashlib.sha256).digest()
    credential = f'Credential=probe/{scope}, SignedHeaders=host;x-amz-date'
    return date, f'AWS4-HMAC-SHA256 {credential}, Signature={derived.hex()}'
for target in sys.argv[3:]:
    name, marker = target.split('=')
    date, header = signed(f'{name}:{port}') if kind == 'signature' else ('none', key)
    connection = http.client.HTTPSConnection(name, int(port), timeout=20)
    if 'PROBE_SERVER' in os.environ:
        to = os.environ['PROBE_SERVER'], int(port)
        connection._create_connection = lambda *_: socket.create_connection(to)
    headers = {'X-Amz-Date': date, 'Authorization': header, 'X-Probe': marker}
    connection.request('GET', '/', headers=headers)
    print(connection.getresponse().status)
print(key)
";

/// How code uses the secret.
#[derive(Clone, Copy)]
pub(super) enum Use {
    /// It sends it.
    Header,
    /// It signs a request with it, as the SDKs of AWS do.
    Signature,
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
fn owner() -> String {
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
    let value = format!("secret-{}", random_name());
    let [host, code, denied] = ["host", "code", "denied"].map(|word| format!("{token}-{word}."));
    let wanted = host_sends(context, kind, &value, &host).await;
    if !offered(context).await {
        return Ok(());
    }
    let targets = [
        format!("{}={code}", owner()),
        format!("{}={denied}", another()),
    ];
    let request = sending(kind, &targets);
    let request = request.secret_for(SECRET, &*value, [format!("{}:{port}", owner())]);
    feature(context, "send the secret to two hosts", async |sandbox| {
        let result = sandbox.handle().exec(&request).await?;
        let printed = result.stdout_text();
        let lines: Vec<_> = printed.lines().collect();
        let arrived = authorizations(&code);
        Ok(match lines[..] {
            ["200", "403", shown] if shown != value && arrived == wanted => None,
            [_, _, shown] if shown == value => Some("code sees the value".to_owned()),
            [_, "200", _] => Some("another host gets the request".to_owned()),
            ["200", ..] if arrived != wanted => Some(format!("the host got {arrived:?}")),
            _ => Some(format!(
                "{}: {printed}{}",
                result.outcome,
                result.stderr_text()
            )),
        })
    })
    .await;
    let untouched = !EgressServer::has_received(&denied);
    context.check_host("messages to the host without the secret", untouched);
    Ok(())
}

/// Host control: the host's Python sends the secret. Returns what arrives.
async fn host_sends(
    context: &mut ProbeContext,
    kind: Use,
    value: &str,
    marker: &str,
) -> Vec<String> {
    let run = tokio::process::Command::new("/usr/bin/python3")
        .args(arguments(kind, &[format!("{}={marker}", owner())]))
        .env(SECRET, value)
        .env("PROBE_SERVER", "127.0.0.1")
        .output()
        .await;
    let arrived = authorizations(marker);
    let failure = match run {
        Ok(run) if run.status.success() && arrived.len() == 1 => None,
        Ok(run) => Some(String::from_utf8_lossy(&run.stderr).into_owned()),
        Err(error) => Some(error.to_string()),
    };
    context.record_host_control(control("the host's Python sends the secret", failure));
    arrived
}

fn arguments(kind: Use, targets: &[String]) -> Vec<String> {
    let kind = match kind {
        Use::Header => "header",
        Use::Signature => "signature",
    };
    let port = EgressServer::get().secure.to_string();
    let first = ["-c", PROGRAM, kind, &port].map(str::to_owned);
    [&first[..], targets].concat()
}

fn sending(kind: Use, targets: &[String]) -> ExecRequest {
    ExecRequest::new("python3").args(arguments(kind, targets))
}

pub(super) async fn ends_with_its_execution(context: &mut ProbeContext) -> Result<(), ProbeError> {
    crate::name_server::started()?;
    let token = context.token().to_owned();
    let value = format!("secret-{}", random_name());
    let host = format!("{token}-host.");
    host_sends(context, Use::Header, &value, &host).await;
    if !offered(context).await {
        return Ok(());
    }
    context.allow_control(&Call::new(["alive"])).await;
    let marker = |word: &str| format!("{token}-{word}.");
    let owned = context
        .with_sandbox(async |sandbox| {
            used_again(
                sandbox.handle(),
                &value,
                [marker("own"), marker("own-later")],
            )
            .await
        })
        .await;
    let owned = if_offered(context, owned);
    let deviation = match owned {
        Ok(None) => {
            in_detached(context, LIFETIME, async |_sandbox, name, client| {
                let markers = [marker("other"), marker("other-later")];
                let later = client.get(name).await?;
                Ok(used_again(&later, &value, markers).await?)
            })
            .await?
        }
        other => other,
    };
    context.record_attack(behavior("send the text again", deviation));
    context.no_host_effect("the attack itself reads what arrives");
    Ok(())
}

/// Uses the secret in one execution, and the text that it had for it in a second one.
async fn used_again(
    sandbox: &SandboxHandle,
    value: &str,
    [first, later]: [String; 2],
) -> Deviation {
    let target = |marker: &str| [format!("{}={marker}", owner())];
    let hosts = [format!("{}:{}", owner(), EgressServer::get().secure)];
    let request = sending(Use::Header, &target(&first)).secret_for(SECRET, value, hosts);
    let result = sandbox.exec(&request).await?;
    let printed = result.stdout_text();
    let Some(text) = printed.lines().nth(1).filter(|_| result.success()) else {
        return Ok(Some(format!("{}: {}", result.outcome, result.output())));
    };
    if authorizations(&first) != [value] {
        return Ok(Some("the secret does not arrive".to_owned()));
    }
    let again = sending(Use::Header, &target(&later)).env(SECRET, text);
    sandbox.exec(&again).await?;
    let arrived = authorizations(&later);
    Ok(arrived
        .contains(&value.to_owned())
        .then(|| "it still stands for the secret".to_owned()))
}

/// The `Authorization` headers of the messages with this marker.
fn authorizations(marker: &str) -> Vec<String> {
    let messages = EgressServer::messages(marker);
    let headers = messages.iter().filter_map(|message| {
        let mut lines = message.lines();
        lines.find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("authorization")
                .then(|| value.to_owned())
        })
    });
    headers.collect()
}
