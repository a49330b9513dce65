//! Tests that every backend passes, and what they are written with.
//!
//! A backend describes itself with [`TestBackend`]. [`tests`] names all tests; its test program
//! runs those that apply.

mod code;
pub mod egress;
mod exec;
mod folders;
mod hostile;
mod installers;
mod isolation;
mod languages;
mod lifetime;
mod limits;
mod mounts;
pub mod packages;
mod ports;
mod secrets;
mod session;
mod stats;
mod terminal;
mod user;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use libtest_mimic::Failed;
use sandbox_core::spi::{Backend, unique_name};
use sandbox_core::{
    CapabilityPolicy, ExecRequest, ExecResult, SandboxClient, SandboxHandle, SandboxSpec,
};

pub use hostile::{assert_agent_is_untouchable, attack_request};
#[cfg(feature = "engine")]
pub(crate) use limits::assert_memory_kills_are_attributed;
pub use mounts::{assert_mounts_appear_at_their_targets, assert_no_socket_in_a_mount_is_reached};
pub use secrets::assert_one_execution_gets_a_secret;
pub use user::{assert_own_user_may_be_named, assert_users_are_refused};

pub(crate) const BUSYBOX: &str = "sandbox-test/busybox:latest";
pub(crate) const BUSYBOX_USER: &str = "sandbox-test/busybox-user:latest";
pub(crate) const SCRATCH: &str = "sandbox-test/scratch:latest";
/// Has all languages of `sandbox-lang`.
pub(crate) const LANGUAGES: &str = "sandbox-test/languages:latest";
/// An image with Python, and `getent`.
pub const PYTHON: &str = "sandbox-test/python:latest";

/// The beginnings of tests' names, each with an image that they need and that not every engine has.
pub const OPTIONAL_IMAGES: &[(&str, &str)] = &[
    (session::JAVASCRIPT, LANGUAGES),
    (session::R, LANGUAGES),
    (session::PLOT_LIBRARIES, LANGUAGES),
    ("installers::", LANGUAGES),
    ("adopt::sessions_show_plots", LANGUAGES),
];

/// What a test returns.
pub type TestResult = Result<(), Failed>;

/// A test's name and its function.
pub type ContractTest = (&'static str, fn(&'static dyn TestBackend) -> TestResult);

/// The expected behavior in which backends differ.
#[derive(Debug, Clone, Copy)]
pub struct Expectations {
    /// The output of `ls` on the agent's folder inside the sandbox.
    pub agent_folder: &'static str,
    /// Whether the storage itself limits the number of files.
    pub bounds_empty_files: bool,
    /// Whether the sandbox has network interfaces that are down, beside loopback.
    pub has_down_interfaces: bool,
    /// Whether this host counts what a sandbox uses, where it can enforce limits.
    pub has_stats: bool,
    /// A lifetime that a sandbox survives long enough to be used, and that a test can wait for.
    pub short_lifetime: Duration,
}

/// A backend under test.
#[async_trait]
pub trait TestBackend: Sync {
    /// The expected behavior in which this backend differs from others.
    fn expectations(&self) -> Expectations;

    /// The backend, with the test's default image.
    fn backend(&self) -> Arc<dyn Backend>;

    /// The backend, with `program` instead of the built-in agent.
    fn backend_with_agent(&self, program: &[u8]) -> Arc<dyn Backend>;

    /// Whether sandboxed code may run as this user ID.
    fn is_sandbox_user(&self, user: &str) -> bool;

    /// Adjusts a specification to the resources that the tests may use.
    fn sized(&self, spec: SandboxSpec) -> SandboxSpec {
        spec
    }

    /// A shell script that starts in place of the agent and runs `script`.
    fn agent_script(&self, script: &str) -> String {
        format!("#!/bin/sh\n{script}")
    }

    /// Whether the backend still has a container or pod of this name, in any state.
    async fn exists(&self, container: &str) -> bool;

    /// Removes a container or pod without the backend's knowledge.
    async fn remove(&self, container: &str);

    /// Waits until [`TestBackend::exists`] is false. Panics after `timeout`.
    async fn wait_removed(&self, container: &str, timeout: Duration);

    /// Removes the stored copy of an agent program.
    async fn remove_agent(&self, program: &[u8]);

    /// Why the backend cannot enforce resource limits; `None` where it can.
    async fn unenforceable_limits(&self) -> Option<String> {
        None
    }
}

impl dyn TestBackend {
    fn client(&self, policy: CapabilityPolicy) -> SandboxClient {
        client_of(self.backend(), policy)
    }

    /// A specification with a unique name.
    fn spec(&self) -> SandboxSpec {
        self.sized(SandboxSpec::new(unique_name("test")))
    }

    /// A busybox sandbox under the default policy.
    async fn sandbox(&self) -> sandbox_core::Result<SandboxHandle> {
        self.client(CapabilityPolicy::new())
            .create(&self.spec())
            .await
    }
}

/// All tests of the contract. A test's name begins with its module's.
pub fn tests() -> impl Iterator<Item = &'static ContractTest> {
    let modules = [
        exec::TESTS,
        code::TESTS,
        languages::TESTS,
        languages::PLOT_TESTS,
        session::TESTS,
        session::POOL_TESTS,
        stats::TESTS,
        isolation::TESTS,
        hostile::TESTS,
        limits::TESTS,
        lifetime::TESTS,
        folders::TESTS,
        ports::TESTS,
        secrets::TESTS,
        terminal::TESTS,
        user::TESTS,
    ];
    modules.into_iter().flatten()
}

/// All tests of packages.
pub fn package_tests() -> impl Iterator<Item = &'static packages::PackageTest> {
    packages::TESTS.iter().chain(installers::TESTS)
}

/// Runs a test on its own runtime for at most two minutes.
pub(crate) fn run<F>(test: F) -> TestResult
where
    F: Future<Output = sandbox_core::Result<()>>,
{
    run_within(Duration::from_secs(120), test)
}

/// Runs a test on its own runtime for at most `limit`.
pub(crate) fn run_within<F>(limit: Duration, test: F) -> TestResult
where
    F: Future<Output = sandbox_core::Result<()>>,
{
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let bounded = async { tokio::time::timeout(limit, test).await };
    match runtime.block_on(bounded) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string().into()),
        Err(_) => Err(format!("took longer than {limit:?}").into()),
    }
}

pub(crate) fn client_of(backend: Arc<dyn Backend>, policy: CapabilityPolicy) -> SandboxClient {
    SandboxClient::with_backend(backend, policy).expect("a valid policy")
}

pub(crate) async fn shell(
    sandbox: &SandboxHandle,
    script: &str,
) -> sandbox_core::Result<ExecResult> {
    sandbox.exec(&ExecRequest::shell(script)).await
}

/// The standard output of a script that must succeed.
pub(crate) async fn output(sandbox: &SandboxHandle, script: &str) -> sandbox_core::Result<String> {
    let result = shell(sandbox, script).await?;
    assert!(
        result.success(),
        "{script}: {:?} {}",
        result.outcome,
        result.output()
    );
    Ok(result.stdout_text())
}
