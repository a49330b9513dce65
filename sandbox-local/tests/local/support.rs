//! Helpers that the tests share.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use sandbox_core::spi::{Backend, unique_name};
use sandbox_core::{
    Capability, CapabilityPolicy, ExecRequest, ExecResult, SandboxClient, SandboxHandle,
    SandboxSpec,
};
use sandbox_local::{LocalBackend, LocalConfig};
use sandbox_testing::users::is_root;

/// Set for a run of the tests as if user namespaces were denied.
pub const WITHOUT_NAMESPACES: &str = "SANDBOX_TEST_WITHOUT_NAMESPACES";

/// Whether sandboxes have namespaces in this run: the host provides them, and they are not
/// disabled.
pub fn namespaces() -> bool {
    static NAMESPACES: OnceLock<bool> = OnceLock::new();
    *NAMESPACES.get_or_init(|| {
        let disabled = std::env::var_os(WITHOUT_NAMESPACES).is_some();
        // Root has no other isolation, so its tests fail where namespaces are missing.
        !disabled && (is_root() || host_has_namespaces())
    })
}

fn host_has_namespaces() -> bool {
    let profile = LocalBackend::default();
    let profile = crate::harness::block_on(profile.profile()).expect("a profile");
    profile.contains(&("user_namespaces".to_owned(), "yes".to_owned()))
}

pub fn backend() -> Arc<LocalBackend> {
    static BACKEND: OnceLock<Arc<LocalBackend>> = OnceLock::new();
    Arc::clone(BACKEND.get_or_init(|| Arc::new(LocalBackend::new(config()))))
}

/// The settings of this run.
pub fn config() -> LocalConfig {
    match namespaces() {
        true => LocalConfig::new(),
        false => LocalConfig::new().without_user_namespaces(),
    }
}

/// A backend with its own state folder.
#[allow(dead_code, reason = "one of the two test programs needs it")]
pub fn backend_in(state: &std::path::Path) -> Arc<LocalBackend> {
    let config = LocalConfig::new().state_folder(state);
    Arc::new(LocalBackend::new(if namespaces() {
        config
    } else {
        config.without_user_namespaces()
    }))
}

/// A policy that accepts every gap of the host.
pub fn policy() -> CapabilityPolicy {
    let mut policy = CapabilityPolicy::new();
    policy.allow_partial = Capability::ALL.to_vec();
    policy.allow_unenforced = Capability::ALL
        .iter()
        .copied()
        .filter(|c| !matches!(c, Capability::StdoutMaxBytes | Capability::StderrMaxBytes))
        .collect();
    policy
}

pub fn spec() -> SandboxSpec {
    SandboxSpec::new(unique_name("test"))
}

pub fn client(policy: CapabilityPolicy) -> SandboxClient {
    SandboxClient::with_backend(backend(), policy).expect("a valid policy")
}

pub async fn create(policy: CapabilityPolicy) -> SandboxHandle {
    client(policy).create(&spec()).await.expect("a sandbox")
}

pub fn sh(script: &str) -> ExecRequest {
    ExecRequest::new("/bin/sh").arg("-c").arg(script)
}

/// Whether a capability holds without a gap.
pub fn enforced(sandbox: &SandboxHandle, capability: Capability) -> bool {
    sandbox
        .enforcement()
        .get(capability)
        .is_some_and(sandbox_core::Enforcement::is_enforced)
}

/// Runs a script in its own sandbox.
pub async fn run(policy: CapabilityPolicy, script: &str) -> ExecResult {
    let sandbox = create(policy).await;
    let result = sandbox.exec(&sh(script)).await.expect("the shell runs");
    sandbox.kill().await.expect("it ends");
    result
}

/// The control groups that this process has created and not removed.
pub fn own_groups() -> Vec<PathBuf> {
    let own = format!("-{}-", std::process::id());
    let mut groups = Vec::new();
    let mut folders = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            // The scope exists as long as the process.
            if name.starts_with("sandbox-") && name.contains(&own) && !name.ends_with(".scope") {
                groups.push(entry.path());
            }
            folders.push(entry.path());
        }
    }
    groups
}
