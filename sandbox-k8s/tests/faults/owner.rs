//! An owner of sandboxes on a cluster.

use std::path::Path;
use std::process::ExitCode;

use sandbox_testing::owner::{OwnerProcess, exit_code, use_sandbox};

use super::cluster::{config, run, sandboxes, spec};

const CONFIGURATION: &str = "SANDBOX_FAULTS_KUBECONFIG";
const NAMESPACE: &str = "SANDBOX_FAULTS_NAMESPACE";

/// The `main` of an owner.
pub fn run_if_asked() -> Option<ExitCode> {
    let kubeconfig = std::env::var(CONFIGURATION).ok()?;
    let namespace = std::env::var(NAMESPACE).expect("set");
    Some(exit_code(run(async {
        let client = sandboxes(config(Path::new(&kubeconfig), &namespace));
        use_sandbox(&client, &spec()).await
    })))
}

/// Starts an owner, without waiting for its sandbox.
pub fn start(kubeconfig: &Path, namespace: &str) -> OwnerProcess {
    let kubeconfig = kubeconfig.to_str().expect("a plain path").to_owned();
    OwnerProcess::spawn([
        (CONFIGURATION, kubeconfig),
        (NAMESPACE, namespace.to_owned()),
    ])
}
