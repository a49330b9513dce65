//! A pod with limits, in the cluster of the current kubeconfig.
//!
//! ```console
//! $ cargo run --example kubernetes --features k8s -- IMAGE
//! ```

use std::time::Duration;

use sandbox::spi::unique_name;
use sandbox::{
    ByteSize, Capability, CapabilityPolicy, CodeRequest, Cpus, Result, RunCode, SandboxSpec,
};

#[tokio::main]
async fn main() -> Result<()> {
    // What the pod may use at most. A pod's limit of processes counts its user's, and the report
    // says so.
    let policy = CapabilityPolicy::new()
        .memory(ByteSize::mib(256))
        .cpus(Cpus::milli(500))
        .pids(64)
        .allow_partial(Capability::Pids)
        .timeout(Duration::from_secs(30));
    let spec = SandboxSpec::new(unique_name("pod"))
        .label("team", "examples")
        .lifetime(Duration::from_secs(300));
    let spec = match std::env::args().nth(1) {
        Some(image) => spec.image(image),
        None => spec,
    };
    let config = sandbox::KubernetesConfig::from_environment()?;
    let sandbox = sandbox::k8s(config, policy)?.create(&spec).await?;
    for (capability, enforcement) in sandbox.enforcement().iter() {
        println!("{capability}: {}", enforcement.status());
    }
    let code = "import platform\nprint('hello from', platform.system())\n";
    let result = sandbox.run_code(CodeRequest::new("python", code)).await?;
    print!("{}", result.check()?.stdout_text());
    sandbox.kill().await
}
