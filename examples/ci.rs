//! CI of a stranger's repository: its tests run on a copy of their folder, with a secret for one
//! step alone, and leave a report.
//!
//! ```console
//! $ cargo run --example ci
//! ```

use std::path::Path;
use std::time::Duration;

use sandbox::spi::unique_name;
use sandbox::{
    CapabilityPolicy, Error, ErrorKind, ExecRequest, Result, SandboxSpec, SecretValue, Workspace,
};

/// The files of the repository.
const FILES: [(&str, &str); 2] = [
    (
        "stats.py",
        "def mean(values):\n    return sum(values) / len(values)\n",
    ),
    (
        "test_stats.py",
        "import unittest\nfrom stats import mean\n\n\
         class Mean(unittest.TestCase):\n    def test_of_two(self):\n        self.assertEqual(mean([1, 3]), 2)\n",
    ),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(unique_name("ci"));
    check_out(&folder).map_err(io_error)?;
    let ended = check(&folder).await;
    std::fs::remove_dir_all(&folder).map_err(io_error)?;
    ended
}

fn check_out(folder: &Path) -> std::io::Result<()> {
    let repository = folder.join("repository");
    std::fs::create_dir_all(&repository)?;
    for (name, content) in FILES {
        std::fs::write(repository.join(name), content)?;
    }
    Ok(())
}

async fn check(folder: &Path) -> Result<()> {
    let policy = CapabilityPolicy::new()
        .timeout(Duration::from_secs(60))
        .artifact_export_path("/output/*.txt")
        .secret("PUBLISH_TOKEN");
    // Tests may write what they like: the repository's folder stays as it is.
    let spec = SandboxSpec::new(unique_name("ci"))
        .workspace(Workspace::read_only(folder.join("repository")))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .secret("PUBLISH_TOKEN");
    let sandbox = sandbox::local(policy)?.create(&spec).await?;

    let tests = ExecRequest::shell("python3 -m unittest -v 2> /output/tests.txt");
    let tests = sandbox.exec(&tests).await?;
    println!("tests: {}, in {:.1?}", tests.outcome, tests.duration);

    // The tests, which a stranger wrote, never had the token.
    let publish = ExecRequest::shell("echo \"published with a token of ${#PUBLISH_TOKEN} bytes\"")
        .secret("PUBLISH_TOKEN", SecretValue::new("0123456789"));
    print!("{}", sandbox.exec(&publish).await?.check()?.stdout_text());

    let export = sandbox.export(folder.join("artifacts")).await?;
    for artifact in &export.artifacts {
        let report = std::fs::read_to_string(&artifact.path).map_err(io_error)?;
        println!(
            "{}: {}",
            artifact.source,
            report.lines().last().unwrap_or_default()
        );
    }
    sandbox.kill().await
}

fn io_error(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "run CI", error.to_string())
}
