//! Sandboxes on the cluster.

use std::future::Future;
use std::sync::Arc;

use sandbox_core::spi::Backend;
use sandbox_core::{ByteSize, CapabilityPolicy, Cpus, SandboxClient, SandboxHandle, SandboxSpec};
use sandbox_k8s::{KubernetesBackend, KubernetesConfig, PodProfile};

/// Runs a test on its own runtime.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(future)
}

/// Why the tests cannot run; `None` if they can.
pub fn missing() -> Option<String> {
    let findings = run(async { backend(PodProfile::Hardened).diagnose().await });
    let absent = findings.iter().find(|finding| !finding.present);
    absent.map(|finding| format!("{}; fix: {}", finding.detail, finding.fix))
}

pub fn backend(profile: PodProfile) -> KubernetesBackend {
    KubernetesBackend::new(KubernetesConfig::default().profile(profile))
}

pub fn client_of(profile: PodProfile, policy: CapabilityPolicy) -> SandboxClient {
    SandboxClient::with_backend(Arc::new(backend(profile)), policy).expect("a client")
}

/// A client of a namespace, with the shortest lease.
pub fn client_in(namespace: &str) -> SandboxClient {
    client_with(config_in(namespace))
}

pub fn config_in(namespace: &str) -> KubernetesConfig {
    KubernetesConfig::default()
        .namespace(namespace)
        .lease(sandbox_k8s::SHORTEST_LEASE)
        // Other tests use the cluster at the same time.
        .scheduling_timeout(std::time::Duration::from_secs(120))
}

pub fn client_with(config: KubernetesConfig) -> SandboxClient {
    let backend = KubernetesBackend::new(config);
    SandboxClient::with_backend(Arc::new(backend), CapabilityPolicy::new()).expect("a client")
}

pub fn client() -> SandboxClient {
    client_of(PodProfile::Hardened, CapabilityPolicy::new())
}

/// A sandbox with small requests: a small cluster has room for many.
pub fn small(name: &str) -> SandboxSpec {
    SandboxSpec::new(name)
        .image("sandbox-test/busybox:latest")
        .memory(ByteSize::mib(64))
        .cpus(Cpus::milli(200))
}

/// The output and errors of a script.
pub async fn output(sandbox: &SandboxHandle, script: &str) -> String {
    let result = sandbox.shell(script).await.expect("an execution");
    format!("{}{}", result.stdout_text(), result.stderr_text())
}
