//! When connections end.

use std::process::ExitCode;
use std::time::Duration;

use sandbox_core::policy::EgressRules;
use sandbox_core::{ErrorKind, Outcome};

use super::servers::{accepted, assert_reset, endless_server, listener, web_server};
use super::{EgressBackend, ONE, OTHER, shell, until};
use crate::contract::{TestResult, run, run_within};
use crate::owner::{OwnerProcess, exit_code};
use crate::wait::wait_until;

/// Reads from a server until the connection breaks, and says `reset` or `end`.
pub(super) fn reading(name: &str, port: u16) -> String {
    format!(
        "
import socket
peer = socket.create_connection(('{name}', {port}))
print('reading' if peer.recv(1) else 'nothing')
try:
    while peer.recv(100): pass
    print('end')
except ConnectionResetError:
    print('reset')
"
    )
}

/// Sends a byte to a server, and waits for its answer.
fn sending(name: &str, port: u16) -> String {
    format!(
        "
import socket
peer = socket.create_connection(('{name}', {port}))
peer.sendall(b'x')
print('reading')
peer.recv(1)
"
    )
}

/// A revoked rule ends its connections, and no other one's.
///
/// # Errors
///
/// The backend's.
pub fn revoked_connections_end_and_others_live_on(
    backend: &'static dyn EgressBackend,
) -> TestResult {
    run(async {
        let port = endless_server();
        let (one, other) = (
            format!("{ONE}:{port} tcp private"),
            format!("{OTHER}:{port} tcp private"),
        );
        let sandbox = backend.create(&[&one, &other]).await?;
        let mut revoked = backend.started(&sandbox, &reading(ONE, port)).await?;
        let mut kept = backend.started(&sandbox, &reading(OTHER, port)).await?;
        sandbox.set_egress(EgressRules::parse([&other])?).await?;
        until(&mut revoked, "reset\n").await?;
        let gone = shell(&sandbox, &format!("getent hosts {ONE}")).await?;
        let none = Outcome::Exited { code: 2 };
        assert_eq!(gone.outcome, none, "{}", gone.output());
        // It comes back, with the same address.
        let both = EgressRules::parse([&one, &other])?;
        sandbox.set_egress(both).await?;
        let _again = backend.started(&sandbox, &reading(ONE, port)).await?;
        let more = EgressRules::parse(["third.test"])?;
        let refused = sandbox.set_egress(more).await;
        let refused = refused.expect_err("above the policy");
        assert_eq!(refused.kind(), ErrorKind::PolicyExceeded);
        // The other connection has lived through all of it; now nothing is allowed.
        sandbox.set_egress(EgressRules::default()).await?;
        until(&mut kept, "reset\n").await?;
        sandbox.kill().await
    })
}

/// A thousand connections leave nothing open.
///
/// # Errors
///
/// The backend's.
pub fn short_connections_leave_no_descriptors(backend: &'static dyn EgressBackend) -> TestResult {
    run_within(Duration::from_secs(600), async {
        let port = web_server("x");
        let sandbox = backend
            .create(&[&format!("{ONE}:{port} tcp private")])
            .await?;
        let descriptors = || std::fs::read_dir("/proc/self/fd").expect("procfs").count();
        let request = |count: u32| {
            format!(
                "
import socket
for _ in range({count}):
    with socket.create_connection(('{ONE}', {port})) as peer:
        peer.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')
        while peer.recv(1000): pass
"
            )
        };
        backend.python_output(&sandbox, &request(1)).await?;
        let before = descriptors();
        // In parts, so that a connection that hangs differs from a busy machine.
        for _ in 0..20 {
            backend.python_output(&sandbox, &request(50)).await?;
        }
        // Other tests of this process open some, too, so some more are fine.
        wait_until("connections close", Duration::from_secs(30), || {
            descriptors() < before + 200
        });
        sandbox.kill().await
    })
}

/// The port that an owner's sandbox connects to.
const OWNER_PORT: &str = "SANDBOX_TEST_EGRESS_PORT";

/// Runs the owner of [`connections_end_with_the_owner`], if this process was started as one.
pub fn run_owner_if_asked(backend: &'static dyn EgressBackend) -> Option<ExitCode> {
    let port: u16 = std::env::var(OWNER_PORT).ok()?.parse().expect("a port");
    let result = run(async {
        let sandbox = backend
            .create(&[&format!("{ONE}:{port} tcp private")])
            .await?;
        let _running = backend.started(&sandbox, &sending(ONE, port)).await?;
        tokio::time::sleep(Duration::from_secs(60)).await;
        sandbox.kill().await
    });
    Some(exit_code(result))
}

/// A killed owner's connections are reset.
///
/// # Errors
///
/// The backend's.
pub fn connections_end_with_the_owner(_: &'static dyn EgressBackend) -> TestResult {
    let (listener, port) = listener();
    let mut owner = OwnerProcess::spawn([(OWNER_PORT, port.to_string())]);
    let peer = accepted(&listener);
    owner.kill();
    assert_reset(peer);
    Ok(())
}
