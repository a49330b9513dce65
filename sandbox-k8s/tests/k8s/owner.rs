//! An owner that holds a sandbox until it is killed.

use std::process::ExitCode;
use std::time::Duration;

use crate::cluster::{client_in, run, small};
use sandbox_testing::owner::{OwnerProcess, exit_code};

const NAME: &str = "SANDBOX_TEST_OWNER";
const NAMESPACE: &str = "SANDBOX_TEST_NAMESPACE";
const DETACHED: &str = "SANDBOX_TEST_DETACHED";

/// The `main` of an owner: creates the sandbox, prints `ready`, and waits.
pub fn run_if_asked() -> Option<ExitCode> {
    let name = std::env::var(NAME).ok()?;
    let namespace = std::env::var(NAMESPACE).expect("a namespace");
    Some(exit_code(run(async {
        let mut spec = small(&name);
        if std::env::var_os(DETACHED).is_some() {
            spec = spec.detached(true).lifetime(Duration::from_secs(120));
        }
        let sandbox = client_in(&namespace).create(&spec).await?;
        println!("ready");
        tokio::time::sleep(Duration::from_secs(120)).await;
        sandbox.kill().await?;
        Ok(())
    })))
}

/// Starts an owner of a sandbox with this name. Returns when the sandbox exists.
pub fn start(namespace: &str, name: &str, detached: bool) -> OwnerProcess {
    let named = [(NAME, name.to_owned()), (NAMESPACE, namespace.to_owned())];
    let detached = detached.then(|| (DETACHED, "1".to_owned()));
    let mut owner = OwnerProcess::spawn(named.into_iter().chain(detached));
    owner.wait_until("ready");
    owner
}
