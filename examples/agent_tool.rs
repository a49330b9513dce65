//! A tool of an agent that runs code: the answer tells a model what happened, and whether another
//! attempt can help.
//!
//! ```console
//! $ cargo run --example agent_tool
//! ```

use std::time::Duration;

use sandbox::{
    ByteSize, CapabilityPolicy, CodeRequest, CodeResult, Result, RunCode, SandboxHandle,
    SandboxSpec,
};

/// The longest text of each stream that a model gets.
const SHOWN: ByteSize = ByteSize::kib(4);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let policy = CapabilityPolicy::new()
        .timeout(Duration::from_secs(20))
        .stdout_max_bytes(SHOWN)
        .stderr_max_bytes(SHOWN);
    // One sandbox for a conversation: the files of a call are there for the next one.
    let client = sandbox::local(policy)?;
    let sandbox = client.create(&SandboxSpec::new("conversation")).await?;
    for code in [
        "open('notes.txt', 'w').write('42')",
        "print(open('notes.txt').read())",
        "import urllib.request\nurllib.request.urlopen('http://192.0.2.1/')",
        "print('x' * 10_000)",
    ] {
        println!(
            "> {}\n{}",
            code.replace('\n', "\n> "),
            answer(&sandbox, code).await?
        );
    }
    sandbox.kill().await
}

/// What the model gets.
async fn answer(sandbox: &SandboxHandle, code: &str) -> Result<String> {
    let ran = match sandbox.run_code(CodeRequest::new("python", code)).await? {
        CodeResult::Ran { result, .. } => result,
        CodeResult::CompileFailed { compiler } => return Ok(compiler.output()),
        _ => return Ok("the code did not run".to_owned()),
    };
    let mut text = ran.stdout_text();
    if ran.stdout.truncated() {
        text += &format!(
            "\n[{} of {} bytes]",
            ran.stdout.bytes.len(),
            ran.stdout.total
        );
    }
    if !ran.success() {
        text += &format!("[{}]\n{}", ran.outcome, ran.stderr_text());
    }
    // A rule that denies is no error of the code: a model should not try again.
    for denial in ran.denials.iter() {
        text += &format!("[denied: {denial}]\n");
    }
    Ok(text)
}
