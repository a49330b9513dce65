//! Sandboxes of a backend, whichever it is: what the tests that other backends run as well are written with.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Failed;
use sandbox_core::{
    CapabilityPolicy, ExecRequest, ExecResult, SandboxClient, SandboxHandle, SandboxSpec,
    unique_name,
};

use crate::family::{self, Backend, Config};

pub const BUSYBOX: &str = "sandbox-test/busybox:latest";
pub const BUSYBOX_USER: &str = "sandbox-test/busybox-user:latest";
pub const SCRATCH: &str = "sandbox-test/scratch:latest";
pub const PYTHON: &str = "sandbox-test/python:latest";

/// Runs a test on a runtime of its own, for at most two minutes.
pub fn run<F>(test: F) -> Result<(), Failed>
where
    F: Future<Output = sandbox_core::Result<()>>,
{
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let bounded = async { tokio::time::timeout(Duration::from_secs(120), test).await };
    match runtime.block_on(bounded) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string().into()),
        Err(_) => Err("took longer than two minutes".into()),
    }
}

pub fn config() -> Config {
    family::config().default_image(BUSYBOX)
}

pub fn client(policy: CapabilityPolicy) -> SandboxClient {
    client_of(Backend::new(config()), policy)
}

pub fn client_of(backend: Backend, policy: CapabilityPolicy) -> SandboxClient {
    SandboxClient::with_backend(Arc::new(backend), policy).expect("a valid policy")
}

/// A sandbox's specification with a name of its own.
pub fn spec() -> SandboxSpec {
    family::sized(SandboxSpec::new(unique_name("test")))
}

/// A busybox sandbox under the default policy.
pub async fn sandbox() -> sandbox_core::Result<SandboxHandle> {
    client(CapabilityPolicy::new()).create(&spec()).await
}

pub async fn shell(sandbox: &SandboxHandle, script: &str) -> sandbox_core::Result<ExecResult> {
    sandbox.exec(&ExecRequest::shell(script)).await
}

/// The standard output of a script that must succeed.
pub async fn output(sandbox: &SandboxHandle, script: &str) -> sandbox_core::Result<String> {
    let result = shell(sandbox, script).await?;
    assert!(
        result.ok(),
        "{script}: {:?} {}",
        result.outcome,
        result.output()
    );
    Ok(result.stdout_text())
}
