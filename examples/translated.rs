//! The examples of llm-sandbox and mellea, translated: a result file, files in and out, time limits,
//! code that is checked first, and libraries.
//!
//! ```console
//! $ cargo run --example translated --features scan
//! $ cargo run --example translated --features scan -- humanize    # also installs this package
//! ```

use std::time::Duration;

use sandbox::scan::{Pattern, Preset};
use sandbox::spi::unique_name;
use sandbox::{
    CapabilityPolicy, CodeRequest, Error, ErrorKind, ExecRequest, OneShot, Outcome, Result,
    RunCode, RunCodeOnce, SandboxSpec,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    result_file().await?;
    files_in_and_out().await?;
    time_limits().await?;
    checked_code().await?;
    match std::env::args().nth(1) {
        Some(package) => libraries(&package).await,
        None => Ok(()),
    }
}

/// mellea: `CapabilityPolicy(timeout=60, artifact_export_paths=[Path("/output/result.txt")])` and
/// `env.execute(code)`.
async fn result_file() -> Result<()> {
    let policy = CapabilityPolicy::new()
        .timeout(Duration::from_secs(60))
        .artifact_export_path("/output/result.txt");
    let code =
        "with open('/output/result.txt', 'w') as f:\n    f.write('hello from the sandbox')\n";
    let folder = std::env::temp_dir().join(unique_name("artifacts"));
    let result = sandbox::local(policy)?
        .run_python(code, OneShot::default().export_to(&folder))
        .await?;
    println!("success: {}", result.result.success());
    for artifact in &result.artifacts {
        let content = std::fs::read_to_string(&artifact.path).map_err(io_error)?;
        println!("{}: {content}", artifact.source);
    }
    std::fs::remove_dir_all(&folder).map_err(io_error)
}

/// llm-sandbox: `copy_to_runtime`, `run`, `copy_from_runtime`.
async fn files_in_and_out() -> Result<()> {
    let folder = std::env::temp_dir().join(unique_name("files"));
    std::fs::create_dir(&folder).map_err(io_error)?;
    std::fs::write(folder.join("in.csv"), "1,2\n3,4\n").map_err(io_error)?;
    let sandbox = sandbox::local(CapabilityPolicy::new())?
        .create(&SandboxSpec::new(unique_name("files")))
        .await?;
    sandbox
        .copy_in(folder.join("in.csv"), "data/in.csv")
        .await?;
    let code = "import csv\n\
                total = sum(int(cell) for row in csv.reader(open('data/in.csv')) for cell in row)\n\
                open('data/out.txt', 'w').write(str(total))\n";
    sandbox
        .run_code(CodeRequest::new("python", code))
        .await?
        .check()?;
    sandbox
        .copy_out("data/out.txt", folder.join("out.txt"))
        .await?;
    let total = std::fs::read_to_string(folder.join("out.txt")).map_err(io_error)?;
    println!("sum of the cells: {total}");
    sandbox.kill().await?;
    std::fs::remove_dir_all(&folder).map_err(io_error)
}

/// llm-sandbox: `default_timeout=30`, and `run(code, timeout=1)` for one of the runs.
async fn time_limits() -> Result<()> {
    let policy = CapabilityPolicy::new().timeout(Duration::from_secs(30));
    let sandbox = sandbox::local(policy)?
        .create(&SandboxSpec::new(unique_name("limits")))
        .await?;
    let endless = "import time\nprint('started', flush=True)\ntime.sleep(600)\n";
    let request = CodeRequest::new("python", endless).timeout(Duration::from_secs(1));
    let result = sandbox.run_code(request).await?;
    let ran = result.ran().expect("Python is not compiled");
    // The output until then is kept, and the sandbox goes on.
    println!(
        "timed out: {}, after it {}",
        ran.outcome == Outcome::TimedOut,
        ran.stdout_text().trim()
    );
    let request = ExecRequest::new("echo").arg("the next run has its own limit");
    print!("{}", sandbox.exec(&request).await?.stdout_text());
    sandbox.kill().await
}

/// llm-sandbox: `SecurityPolicy` with a pattern of its own. There it is only asked; here code that
/// fails never runs.
async fn checked_code() -> Result<()> {
    let internal = Pattern::new("internal", r"requests\.get\(.*internal\.company")?;
    let check = Preset::WebScraping.policy().pattern(internal);
    let client = sandbox::local(CapabilityPolicy::new())?;
    for code in [
        "print(sum(range(10)))",
        "import requests as r\nr.get('http://internal.company/')",
    ] {
        let request = CodeRequest::new("python", code).check(check.clone());
        match client.run_code(request, OneShot::default()).await {
            Ok(ended) => print!("accepted: {}", ended.code.check()?.stdout_text()),
            Err(error) if error.kind() == ErrorKind::CodeRefused => {
                println!("refused: {}", error.context());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// llm-sandbox: `run(code, libraries=[…])`. The policy decides whether packages may be installed.
async fn libraries(package: &str) -> Result<()> {
    let policy = CapabilityPolicy::new().package(package);
    let code = "import importlib.metadata, sys\n\
                print('installed:', sys.argv[1], importlib.metadata.version(sys.argv[1]))\n";
    let request = CodeRequest::new("python", code)
        .library(package)
        .arg(package);
    let ended = sandbox::local(policy)?
        .run_code(request, OneShot::default())
        .await?;
    print!("{}", ended.code.check()?.stdout_text());
    Ok(())
}

fn io_error(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "run the example", error.to_string())
}
