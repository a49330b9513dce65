//! Connections of detached sandboxes.

use std::time::Duration;

use sandbox_core::policy::EgressRules;
use sandbox_core::spi::unique_name;
use sandbox_core::{Denial, DenialKind, ErrorKind, SandboxClient, SandboxHandle, SandboxSpec};

use super::lifecycle::reading;
use super::servers::{endless_server, web_server};
use super::tls_server::TlsServer;
use super::{EgressBackend, ONE, OTHER, until};
use crate::contract::{TestResult, run};

/// Longer than a test, so that a test that fails leaves nothing for long.
const LIFETIME: Duration = Duration::from_secs(180);

fn spec() -> SandboxSpec {
    let spec = SandboxSpec::new(unique_name("test"));
    spec.detached(true).lifetime(LIFETIME)
}

/// Removes the sandbox of a test, also if it has failed.
async fn removed(
    client: &SandboxClient,
    name: &str,
    test: impl AsyncFnOnce() -> sandbox_core::Result<()>,
) -> sandbox_core::Result<()> {
    let tested = test().await;
    let removed = client.remove(name).await;
    tested.and(removed)
}

/// Asks a web server for this host, and prints `open` or the kind of the error.
fn connection(name: &str, port: u16, host: &str) -> String {
    format!(
        "
import socket
try:
    peer = socket.create_connection(('{name}', {port}))
    peer.sendall(b'GET / HTTP/1.0\\r\\nHost: {host}\\r\\n\\r\\n')
    print('open' if peer.recv(1) else 'closed')
except OSError as error:
    print(type(error).__name__)
"
    )
}

/// What a connection to a name gives.
async fn connecting(
    backend: &'static dyn EgressBackend,
    sandbox: &SandboxHandle,
    name: &str,
    port: u16,
) -> sandbox_core::Result<String> {
    let code = connection(name, port, name);
    let text = backend.python_output(sandbox, &code).await?;
    Ok(text.trim_end().to_owned())
}

/// The creator carries the connections of a detached sandbox, then another process that says so.
/// Without a carrier they are refused.
///
/// # Errors
///
/// The backend's.
pub fn detached_sandbox_has_one_carrier_at_a_time(
    backend: &'static dyn EgressBackend,
) -> TestResult {
    run(async {
        let port = web_server("x");
        let rule = format!("{ONE}:{port} tcp private");
        let client = backend.client(&[&rule]);
        let creator = client.create(&spec()).await?;
        let name = creator.name().to_owned();
        removed(&client, &name, async || {
            let connect =
                async |sandbox: &SandboxHandle| connecting(backend, sandbox, ONE, port).await;
            assert_eq!(connect(&creator).await?, "open");
            let other = backend.client(&[&rule]).get(&name).await?;
            assert_eq!(connect(&other).await?, "open");
            let second = other.carry_egress(None).await.expect_err("carried already");
            assert_eq!(second.kind(), ErrorKind::AlreadyExists, "{second}");

            drop(creator);
            assert_eq!(connect(&other).await?, "ConnectionResetError");
            let none = other.egress_rules().await.expect_err("no carrier");
            assert_eq!(none.kind(), ErrorKind::NotCarried, "{none}");
            let none = other.set_egress(EgressRules::default()).await;
            assert_eq!(none.expect_err("no carrier").kind(), ErrorKind::NotCarried);

            // It starts with other rules, here none, and then gets those of the policy.
            other.carry_egress(Some(EgressRules::default())).await?;
            assert_eq!(connect(&other).await?, "gaierror");
            other
                .carry_egress(Some(EgressRules::parse([&rule])?))
                .await?;
            assert_eq!(connect(&other).await?, "open");
            Ok(())
        })
        .await
    })
}

/// Another client changes the rules of a detached sandbox through its carrier, within the policy,
/// and sees what was denied and carried.
///
/// # Errors
///
/// The backend's.
pub fn carrier_of_a_detached_sandbox_obeys_other_clients(
    backend: &'static dyn EgressBackend,
) -> TestResult {
    run(async {
        let port = endless_server();
        let [one, other] = [ONE, OTHER].map(|name| format!("{name}:{port} tcp private"));
        let web = web_server("x");
        let named = format!("{ONE}:{web} name private");
        let client = backend.client(&[&one, &other, &named]);
        let carrier = client.create(&spec()).await?;
        let name = carrier.name().to_owned();
        removed(&client, &name, async || {
            let sandbox = backend.client(&[]).get(&name).await?;
            let code = connection(ONE, web, "wrong.test");
            let denied = sandbox.exec(&backend.program(&code)).await?;
            let is_network = |denial: &Denial| denial.kind == DenialKind::Network;
            let denials = &denied.denials;
            assert!(denials.iter().any(is_network), "{denials:?}");
            let mut revoked = backend.started(&sandbox, &reading(ONE, port)).await?;
            let mut kept = backend.started(&sandbox, &reading(OTHER, port)).await?;
            sandbox.set_egress(EgressRules::parse([&other])?).await?;
            until(&mut revoked, "reset\n").await?;
            let in_force = carrier.egress_rules().await?;
            assert_eq!(in_force, sandbox.egress_rules().await?);
            assert_eq!(in_force, EgressRules::parse([&other])?);
            let more = sandbox
                .set_egress(EgressRules::parse(["third.test"])?)
                .await;
            let more = more.expect_err("above the policy");
            assert_eq!(more.kind(), ErrorKind::PolicyExceeded, "{more}");
            let stats = sandbox.stats().await?;
            assert!(stats.egress_received > Some(0), "{stats:?}");
            sandbox.set_egress(EgressRules::default()).await?;
            until(&mut kept, "reset\n").await
        })
        .await
    })
}

/// At level `http`, clients trust the present carrier, and a secret of another client goes through
/// it.
///
/// # Errors
///
/// The backend's.
pub fn carrier_of_a_detached_sandbox_reads_requests(
    backend: &'static dyn EgressBackend,
) -> TestResult {
    run(async {
        let server = TlsServer::start(ONE);
        let port = server.port;
        let rule = format!("{ONE}:{port} http GET /v1/* private");
        let client = || backend.client_that_trusts(Some(server.certificate()), &[&rule]);
        let creator = client().create(&spec().secret("TOKEN")).await?;
        let name = creator.name().to_owned();
        removed(&client(), &name, async || {
            let code = format!(
                "
import os, urllib.request
request = urllib.request.Request('https://{ONE}:{port}/v1/me', headers={{'Authorization': os.environ['TOKEN']}})
print('Authorization: can' 'ary-7' in urllib.request.urlopen(request).read().decode())
"
            );
            let request = backend.program(&code);
            let request = request.secret_for("TOKEN", "canary-7", [format!("{ONE}:{port}")]);
            let sandbox = client().get(&name).await?;
            let result = sandbox.exec(&request).await?;
            assert_eq!(result.stdout_text(), "True\n", "{}", result.output());
            drop(creator);
            // Its certificate is another one.
            let next = client().get(&name).await?;
            next.carry_egress(None).await?;
            for sandbox in [&sandbox, &next] {
                let result = sandbox.exec(&request).await?;
                assert_eq!(result.stdout_text(), "True\n", "{}", result.output());
            }
            Ok(())
        })
        .await
    })
}
