//! Measures lowering.
use sandbox_core::{CapabilityPolicy, SandboxClient, SandboxSpec};
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let backend = std::sync::Arc::new(sandbox_local::LocalBackend::default());
    let client = SandboxClient::with_backend(backend, CapabilityPolicy::new()).unwrap();
    let t = std::time::Instant::now();
    let spec = SandboxSpec::new("try");
    for _ in 0..2000 { client.check(&spec).await.unwrap(); }
    println!("{:?}", t.elapsed() / 2000);
}
