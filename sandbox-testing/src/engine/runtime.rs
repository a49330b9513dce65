//! Sandboxes with gVisor's OCI runtime.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use sandbox_core::spi::Backend;
use sandbox_core::{CapabilityPolicy, ErrorKind, ExecRequest, TerminalSize};

use super::egress::config_with;
use super::test_engine::block_on;
use super::{EngineTest, TestEngine};
use crate::contract::egress::{self, EgressBackend};
use crate::contract::{TestResult, client_of, output, run, shell};

/// The runtime's name in the engine's configuration.
const RUNSC: &str = "runsc";

/// Tests that need an engine with the runtime.
pub const WITH_RUNSC: &[EngineTest] = &[
    (
        "runtime::a_sandbox_uses_and_reports_the_configured_runtime",
        chosen,
    ),
    (
        "runtime::rules_for_hosts_are_enforced_on_a_kernel_of_its_own",
        rules,
    ),
];

/// An engine whose sandboxes run on gVisor's kernel.
struct WithRunsc(&'static TestEngine);

impl EgressBackend for WithRunsc {
    fn with_hosts(
        &self,
        hosts: &[(&str, IpAddr)],
        certificates: Option<&Path>,
    ) -> Arc<dyn Backend> {
        let config = self.0.config().runtime(RUNSC);
        self.0.backend(config_with(config, hosts, certificates))
    }
}

fn rules(engine: &'static TestEngine) -> TestResult {
    let engine: &'static WithRunsc = Box::leak(Box::new(WithRunsc(engine)));
    let tests = [
        egress::unchanged_clients_reach_an_allowed_name,
        egress::other_names_resolve_to_nothing_and_addresses_have_no_route,
        egress::rules_allow_their_hosts_and_addresses_alone,
        egress::revoked_connections_end_and_others_live_on,
        egress::requests_are_judged_by_rules_at_level_http,
    ];
    tests.into_iter().try_for_each(|test| test(engine))
}

/// Why the engine cannot use the runtime; `None` where it can.
pub fn missing(engine: &'static TestEngine) -> Option<String> {
    block_on(async {
        match engine.api().info().await {
            Ok(info) => {
                let known = info.runtimes.unwrap_or_default().contains_key(RUNSC);
                let fix = "cargo xtask engines up docker --with-runsc";
                (!known).then(|| format!("the engine has no runtime {RUNSC}; fix: {fix}"))
            }
            Err(error) => Some(error.to_string()),
        }
    })
}

fn chosen(engine: &'static TestEngine) -> TestResult {
    run(async {
        let backend = engine.backend(engine.config().runtime(RUNSC));
        let client = client_of(backend, CapabilityPolicy::new());
        let sandbox = client.create(&engine.spec()).await?;
        let report = sandbox.enforcement();
        let named = report
            .iter()
            .any(|(_, enforcement)| enforcement.to_string().contains(RUNSC));
        assert!(named, "no entry names the runtime: {report:?}");
        let kernel = output(&sandbox, "cat /proc/version").await?;
        let hosts = std::fs::read_to_string("/proc/version").expect("the host's kernel");
        assert_ne!(kernel, hosts, "the code's kernel is the host's");
        let result = shell(&sandbox, "echo to stderr >&2; exit 7").await?;
        assert_eq!(result.exit_code(), Some(7), "{result:?}");
        assert_eq!(result.stderr_text(), "to stderr\n");
        // gVisor has terminals of its own, or refuses them in a typed way.
        let stty = ExecRequest::new("stty").arg("size");
        match sandbox
            .exec(&stty.terminal(TerminalSize::new(33, 101)))
            .await
        {
            Ok(result) => assert_eq!(result.stdout_text(), "33 101\r\n"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
        }
        sandbox.kill().await
    })
}
