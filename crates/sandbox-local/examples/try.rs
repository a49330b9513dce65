//! Runs a command in a local sandbox, for trying things out.
use sandbox_core::{CapabilityPolicy, ExecRequest, SandboxClient, SandboxSpec};
use std::sync::Arc;
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut config = sandbox_local::LocalConfig::new();
    if std::env::var_os("NO_USERNS").is_some() { config = config.without_user_namespaces(); }
    let backend = Arc::new(sandbox_local::LocalBackend::new(config));
    for f in sandbox_core::spi::Backend::diagnose(&*backend).await { eprintln!("{f:?}"); }
    let mut policy = CapabilityPolicy::new();
    policy.allow_partial = sandbox_core::Capability::ALL.to_vec();
    policy.allow_unenforced = vec![];
    let client = SandboxClient::with_backend(backend, policy).unwrap();
    let sandbox = match client.create(&SandboxSpec::new("try")).await { Ok(s) => s, Err(e) => { eprintln!("{e}"); return; } };
    for (c, e) in sandbox.enforcement().iter() { eprintln!("{c:28} {e}"); }
    let mut args = std::env::args().skip(1);
    let request = ExecRequest::new(args.next().unwrap()).args(args);
    match sandbox.exec(&request).await {
        Ok(r) => { println!("{}", r.stdout_text()); eprintln!("{} {:?}", r.stderr_text(), r.outcome); }
        Err(e) => eprintln!("{e}"),
    }
    sandbox.kill().await.unwrap();
}
