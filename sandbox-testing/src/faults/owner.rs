//! A process that owns a sandbox on a private engine.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use sandbox_container::ContainerConfig;
use sandbox_core::{CapabilityPolicy, SandboxSpec};

use super::EngineLauncher;
use super::private_engine::{IMAGE, run};
use crate::contract::client_of;
use crate::owner::{OwnerProcess, exit_code, use_sandbox};

const ADDRESS: &str = "SANDBOX_FAULTS_ADDRESS";
const STATE: &str = "SANDBOX_FAULTS_STATE";
const NAME: &str = "SANDBOX_FAULTS_NAME";
const DETACHED: &str = "SANDBOX_FAULTS_DETACHED";

/// Runs as an owner if this process was started as one.
pub fn run_if_asked(launcher: &dyn EngineLauncher) -> Option<ExitCode> {
    let address = std::env::var(ADDRESS).ok()?;
    Some(exit_code(run(async {
        let config = ContainerConfig::default()
            .host(address)
            .default_image(IMAGE)
            .state_folder(std::env::var_os(STATE).expect("set"));
        let detached = std::env::var_os(DETACHED).is_some();
        let mut spec = SandboxSpec::new(std::env::var(NAME).expect("set")).detached(detached);
        spec.lifetime = detached.then_some(Duration::from_secs(120));
        let client = client_of(launcher.backend(config), CapabilityPolicy::new());
        use_sandbox(&client, &spec).await
    })))
}

/// Starts an owner. Does not wait for its sandbox.
pub fn start(address: &str, state: &Path, name: &str, detached: bool) -> OwnerProcess {
    let state = state.to_str().expect("a plain path").to_owned();
    let named = [
        (ADDRESS, address.to_owned()),
        (STATE, state),
        (NAME, name.to_owned()),
    ];
    let detached = detached.then(|| (DETACHED, "1".to_owned()));
    OwnerProcess::spawn(named.into_iter().chain(detached))
}
