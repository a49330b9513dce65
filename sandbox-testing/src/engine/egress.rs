//! Egress rules in containers, beside the tests that all backends share.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use sandbox_container::ContainerConfig;
use sandbox_core::spi::Backend;

use super::{EngineTest, TestEngine};
use crate::contract::egress::{EgressBackend, ONE, assert_no_power_over_the_network, web_server};
use crate::contract::{BUSYBOX, PYTHON, TestResult, output, run};

pub const TESTS: &[EngineTest] = &[
    (
        "egress::a_static_program_reaches_an_allowed_name",
        static_program,
    ),
    ("egress::code_of_root_gets_no_capability", code_of_root),
    (
        "egress::names_of_the_engine_s_host_are_not_in_the_sandbox",
        names_of_the_host,
    ),
];

impl EgressBackend for TestEngine {
    fn with_hosts(
        &self,
        hosts: &[(&str, IpAddr)],
        certificates: Option<&Path>,
    ) -> Arc<dyn Backend> {
        self.backend(config_with(self.config(), hosts, certificates))
    }
}

/// The configuration with names, authorities, and an image that has Python.
pub(super) fn config_with(
    config: ContainerConfig,
    hosts: &[(&str, IpAddr)],
    certificates: Option<&Path>,
) -> ContainerConfig {
    let config = config.default_image(PYTHON);
    let config = hosts.iter().fold(config, |config, (name, address)| {
        config.host_address(*name, *address)
    });
    let certificates = certificates.into_iter();
    certificates.fold(config, ContainerConfig::certificates)
}

fn client(engine: &'static TestEngine, rules: &[&str]) -> sandbox_core::SandboxClient {
    let backend: &dyn EgressBackend = engine;
    backend.client(rules)
}

/// Busybox has its own resolver and HTTP client.
fn static_program(engine: &'static TestEngine) -> TestResult {
    run(async {
        let port = web_server("hello from outside");
        let spec = engine.spec().image(BUSYBOX);
        let rule = format!("{ONE}:{port} tcp private");
        let sandbox = client(engine, &[&rule]).create(&spec).await?;
        let script = format!("wget -qO- http://{ONE}:{port}/");
        assert_eq!(output(&sandbox, &script).await?, "hello from outside");
        sandbox.kill().await
    })
}

/// With an address of the host's `/etc/hosts`, code would not ask the agent for the name.
fn names_of_the_host(engine: &'static TestEngine) -> TestResult {
    run(async {
        let sandbox = client(engine, &[ONE]).create(&engine.spec()).await?;
        let hosts = output(&sandbox, "cat /etc/hosts").await?;
        assert_eq!(hosts, sandbox_host::egress::HOSTS);
        sandbox.kill().await
    })
}

fn code_of_root(engine: &'static TestEngine) -> TestResult {
    run(async {
        for spec in [
            engine.spec().user("0:0"),
            engine.spec().user("0:0").writable_root(true),
        ] {
            let sandbox = client(engine, &[ONE, "203.0.113.0/24:443"])
                .create(&spec)
                .await?;
            assert_no_power_over_the_network(engine, &sandbox).await?;
            sandbox.kill().await?;
        }
        Ok(())
    })
}
