//! A host of notebooks: a sandbox outlives the process that made it, and another process goes on
//! with it.
//!
//! ```console
//! $ cargo run --example notebook
//! ```

use std::time::Duration;

use sandbox::spi::unique_name;
use sandbox::{CapabilityPolicy, ExecRequest, Result, SandboxClient, SandboxSpec};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let name = unique_name("notebook");
    let policy = CapabilityPolicy::new().artifact_export_path("/output/*");
    open(&sandbox::local(policy.clone())?, &name).await?;
    // As after a restart of the host: a new client finds the sandbox by its name.
    close(&sandbox::local(policy)?, &name).await
}

async fn open(client: &SandboxClient, name: &str) -> Result<()> {
    let spec = SandboxSpec::new(name)
        .detached(true)
        .lifetime(Duration::from_secs(600))
        .label("user", "ada");
    let sandbox = client.create(&spec).await?;
    let cell = "import csv; csv.writer(open('/output/table.csv', 'w')).writerows([[1, 2], [3, 4]])";
    run(&sandbox, cell).await?;
    println!("the first process ends, and the sandbox stays");
    Ok(())
}

async fn close(client: &SandboxClient, name: &str) -> Result<()> {
    let sandbox = client.get(name).await?;
    println!("found {name}, of {}", sandbox.plan().labels["user"]);
    run(&sandbox, "print(open('/output/table.csv').read(), end='')").await?;
    let folder = std::env::temp_dir().join(unique_name("artifacts"));
    let export = sandbox.export(&folder).await?;
    for artifact in &export.artifacts {
        let content_type = artifact.content_type.as_deref().unwrap_or("unknown");
        println!(
            "{}: {} bytes, {content_type}",
            artifact.source, artifact.size_bytes
        );
    }
    sandbox.kill().await?;
    std::fs::remove_dir_all(&folder)
        .map_err(|error| sandbox::Error::new(sandbox::ErrorKind::Io, "clean up", error.to_string()))
}

async fn run(sandbox: &sandbox::SandboxHandle, code: &str) -> Result<()> {
    let result = sandbox
        .exec(&ExecRequest::new("python3").args(["-c", code]))
        .await?;
    print!("{}", result.check()?.stdout_text());
    Ok(())
}
