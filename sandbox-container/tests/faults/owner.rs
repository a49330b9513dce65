//! An owner of sandboxes on an engine.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use sandbox_core::SandboxSpec;

use super::engine::{IMAGE, client_of, run};
use super::life::{Owner, end, live};
use crate::family::Config;

const ADDRESS: &str = "SANDBOX_FAULTS_ADDRESS";
const STATE: &str = "SANDBOX_FAULTS_STATE";
const NAME: &str = "SANDBOX_FAULTS_NAME";
const DETACHED: &str = "SANDBOX_FAULTS_DETACHED";

/// What an owner does.
pub fn run_if_asked() -> Option<ExitCode> {
    let address = std::env::var(ADDRESS).ok()?;
    Some(end(run(async {
        let config = Config::default()
            .host(address)
            .default_image(IMAGE)
            .state_folder(std::env::var_os(STATE).expect("set"));
        let detached = std::env::var_os(DETACHED).is_some();
        let mut spec = SandboxSpec::new(std::env::var(NAME).expect("set")).detached(detached);
        spec.lifetime = detached.then_some(Duration::from_secs(120));
        live(&client_of(config), &spec).await
    })))
}

/// Starts one that waits for nothing.
pub fn start(address: &str, state: &Path, name: &str, detached: bool) -> Owner {
    let state = state.to_str().expect("a plain path").to_owned();
    let named = [
        (ADDRESS, address.to_owned()),
        (STATE, state),
        (NAME, name.to_owned()),
    ];
    let detached = detached.then(|| (DETACHED, "1".to_owned()));
    Owner::spawn(named.into_iter().chain(detached))
}
