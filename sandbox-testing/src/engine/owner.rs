//! A process that holds a sandbox until a test kills it.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use sandbox_core::{CapabilityPolicy, SandboxSpec};

use super::TestEngine;
use super::package_cache::over_host_network;
use crate::contract::run;
use crate::owner::{OwnerProcess, exit_code};

/// What an owner prints once it has its sandbox.
pub const READY: &str = "ready";

const NAME: &str = "SANDBOX_TEST_OWNER";
const AGENT: &str = "SANDBOX_TEST_AGENT";
const STATE: &str = "SANDBOX_TEST_STATE";
const INDEX: &str = "SANDBOX_TEST_REGISTRY";
const CACHE: &str = "SANDBOX_TEST_CACHE";

/// Runs an owner, where this process was started as one: creates the sandbox and keeps it for a
/// minute.
pub fn run_if_asked(engine: &'static TestEngine) -> Option<ExitCode> {
    let name = std::env::var(NAME).ok()?;
    let result = run(async {
        let mut config = engine.config();
        if let Ok(path) = std::env::var(AGENT) {
            config = config.agent(std::fs::read(path).expect("the agent's program"));
        }
        let mut spec = SandboxSpec::new(name);
        if let Some(state) = std::env::var_os(STATE) {
            config = config.state_folder(state);
            spec = spec.detached(true).lifetime(Duration::from_secs(60));
        }
        let mut policy = CapabilityPolicy::new();
        if let (Ok(index), Some(cache)) = (std::env::var(INDEX), std::env::var_os(CACHE)) {
            policy.packages = vec!["demo".into()];
            config = over_host_network(config, &index, cache.as_ref());
        }
        let client = engine.client_with(config, policy);
        let sandbox = client.create(&spec).await?;
        println!("{READY}");
        tokio::time::sleep(Duration::from_secs(60)).await;
        sandbox.kill().await
    });
    Some(exit_code(result))
}

/// Starts an owner and waits until it has its sandbox.
pub fn start(name: &str) -> OwnerProcess {
    let mut owner = OwnerProcess::spawn([(NAME, name.to_owned())]);
    owner.wait_until(READY);
    owner
}

/// Starts an owner with this agent. Does not wait for its sandbox.
pub fn with_agent(name: &str, agent: &Path) -> OwnerProcess {
    OwnerProcess::spawn([(NAME, name.to_owned()), (AGENT, text(agent))])
}

/// Starts the creator of a detached sandbox. Does not wait for it.
pub fn detached(name: &str, state: &Path) -> OwnerProcess {
    OwnerProcess::spawn([(NAME, name.to_owned()), (STATE, text(state))])
}

/// Starts the creator of a sandbox with the package `demo` of an index on this host. Does not wait
/// for it.
pub fn installing(name: &str, index: &str, cache: &Path) -> OwnerProcess {
    OwnerProcess::spawn([
        (NAME, name.to_owned()),
        (INDEX, index.to_owned()),
        (CACHE, text(cache)),
    ])
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").to_owned()
}
