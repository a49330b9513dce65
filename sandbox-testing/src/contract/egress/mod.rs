//! Connections of unchanged programs to servers that rules allow. The servers are on this host's
//! loopback, so the rules say `private`.

mod audited;
mod detached;
mod http;
mod lifecycle;
mod reach;
mod servers;
mod tls_server;

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sandbox_core::policy::{EgressRules, NetworkPolicy};
use sandbox_core::spi::{Backend, unique_name};
use sandbox_core::{
    CapabilityPolicy, ExecEvent, ExecRequest, ExecResult, Execution, SandboxClient, SandboxHandle,
    SandboxSpec, Stdin,
};

use super::{TestResult, client_of};

pub use audited::connections_and_rules_are_audited;
pub(crate) use tls_server::TlsServer;

pub use detached::{
    carrier_of_a_detached_sandbox_obeys_other_clients,
    carrier_of_a_detached_sandbox_reads_requests, detached_sandbox_has_one_carrier_at_a_time,
};
pub use http::requests_are_judged_by_rules_at_level_http;
pub use lifecycle::{
    connections_end_with_the_owner, revoked_connections_end_and_others_live_on, run_owner_if_asked,
    short_connections_leave_no_descriptors,
};
pub use reach::{
    other_names_resolve_to_nothing_and_addresses_have_no_route,
    rules_allow_their_hosts_and_addresses_alone, unchanged_clients_reach_an_allowed_name,
};

pub use servers::web_server;

#[cfg(feature = "engine")]
pub(crate) use reach::assert_no_power_over_the_network;

/// A name that leads to this host's loopback.
pub const ONE: &str = "one.test";
const OTHER: &str = "other.test";

/// A backend whose sandboxes can have egress rules. They have Python and `getent`.
pub trait EgressBackend: Sync {
    /// The backend. Names have these addresses, and servers certificates of the authorities in this
    /// file, beside the host's.
    fn with_hosts(&self, hosts: &[(&str, IpAddr)], certificates: Option<&Path>)
    -> Arc<dyn Backend>;

    /// The policy that rules are added to. It must not accept that rules are not enforced.
    fn policy(&self) -> CapabilityPolicy {
        CapabilityPolicy::new()
    }

    /// The Python program of the sandbox.
    fn python(&self) -> &'static str {
        "python3"
    }
}

/// A test's name and its function.
pub type EgressTest = (&'static str, fn(&'static dyn EgressBackend) -> TestResult);

/// All tests. The test program must call [`run_owner_if_asked`] first.
pub const TESTS: &[EgressTest] = &[
    (
        "egress::unchanged_clients_reach_an_allowed_name",
        unchanged_clients_reach_an_allowed_name,
    ),
    (
        "egress::other_names_resolve_to_nothing_and_addresses_have_no_route",
        other_names_resolve_to_nothing_and_addresses_have_no_route,
    ),
    (
        "egress::rules_allow_their_hosts_and_addresses_alone",
        rules_allow_their_hosts_and_addresses_alone,
    ),
    (
        "egress::revoked_connections_end_and_others_live_on",
        revoked_connections_end_and_others_live_on,
    ),
    (
        "egress::short_connections_leave_no_descriptors",
        short_connections_leave_no_descriptors,
    ),
    (
        "egress::connections_end_with_the_owner",
        connections_end_with_the_owner,
    ),
    (
        "egress::connections_and_rules_are_audited",
        connections_and_rules_are_audited,
    ),
    (
        "egress::requests_are_judged_by_rules_at_level_http",
        requests_are_judged_by_rules_at_level_http,
    ),
    (
        "egress::detached_sandbox_has_one_carrier_at_a_time",
        detached_sandbox_has_one_carrier_at_a_time,
    ),
    (
        "egress::carrier_of_a_detached_sandbox_obeys_other_clients",
        carrier_of_a_detached_sandbox_obeys_other_clients,
    ),
    (
        "egress::carrier_of_a_detached_sandbox_reads_requests",
        carrier_of_a_detached_sandbox_reads_requests,
    ),
];

impl dyn EgressBackend {
    pub(crate) fn client(&self, rules: &[&str]) -> SandboxClient {
        self.client_that_trusts(None, rules)
    }

    fn client_that_trusts(&self, certificates: Option<&Path>, rules: &[&str]) -> SandboxClient {
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        let backend = self.with_hosts(&[(ONE, here), (OTHER, here)], certificates);
        let mut policy = self.policy();
        let rules = EgressRules::parse(rules).expect("rules");
        policy.secrets = vec!["TOKEN".to_owned()];
        policy.network = Some(NetworkPolicy::Allow(rules.into_rules()));
        client_of(backend, policy)
    }

    async fn create(&self, rules: &[&str]) -> sandbox_core::Result<SandboxHandle> {
        self.client(rules).create(&spec()).await
    }

    /// A request that runs this Python program.
    fn program(&self, code: &str) -> ExecRequest {
        let program = ExecRequest::new(self.python()).arg("-uc").arg(code);
        program.timeout(TIME_LIMIT)
    }

    /// The output of a Python program that succeeds.
    async fn python_output(
        &self,
        sandbox: &SandboxHandle,
        code: &str,
    ) -> sandbox_core::Result<String> {
        let result = sandbox.exec(&self.program(code)).await?;
        let (outcome, output) = (&result.outcome, result.output());
        assert!(result.success(), "{code}: {outcome:?} {output}");
        Ok(result.stdout_text())
    }

    /// Starts a Python program, and waits until it has printed `reading`.
    async fn started(
        &self,
        sandbox: &SandboxHandle,
        code: &str,
    ) -> sandbox_core::Result<Execution> {
        let mut execution = sandbox.start(&self.program(code), Stdin::Null).await?;
        until(&mut execution, "reading\n").await?;
        Ok(execution)
    }
}

/// The longest that one program of a test may run.
const TIME_LIMIT: Duration = Duration::from_secs(60);

fn spec() -> SandboxSpec {
    SandboxSpec::new(unique_name("test"))
}

async fn shell(sandbox: &SandboxHandle, script: &str) -> sandbox_core::Result<ExecResult> {
    let request = ExecRequest::shell(script).timeout(TIME_LIMIT);
    sandbox.exec(&request).await
}

/// Reads until exactly this was printed.
async fn until(execution: &mut Execution, expected: &str) -> sandbox_core::Result<()> {
    let mut text = String::new();
    while text != expected {
        match execution.next_event().await? {
            Some(ExecEvent::Stdout(bytes)) => text += &String::from_utf8_lossy(&bytes),
            Some(ExecEvent::Started) => {}
            other => panic!("{other:?} instead of {expected:?}, after {text:?}"),
        }
    }
    Ok(())
}
