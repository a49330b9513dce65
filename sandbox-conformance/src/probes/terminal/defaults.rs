//! What a terminal is without further requests.

use std::time::Duration;

use sandbox_core::{ExecRequest, ExecResult, SandboxHandle, Stdin, TerminalSize};

use super::shell;
use crate::probes::prelude::*;

/// The limit of a program that reads on after the end of its input.
const SHORT: Duration = Duration::from_millis(300);

pub(super) async fn run(sandbox: &SandboxHandle) -> Deviation {
    let script = "cat; echo $TERM; stty size; echo error >&2";
    let usual = shell(script).terminal(TerminalSize::default());
    let other = shell(script).terminal(TerminalSize::new(0, 65_535));
    // The end of the input is a key, so the program goes on.
    for (request, expected) in [
        (usual.clone(), "xterm\r\n24 80\r\nerror\r\n"),
        (usual.env("TERM", "dumb"), "dumb\r\n24 80\r\nerror\r\n"),
        (other, "xterm\r\n0 65535\r\nerror\r\n"),
    ] {
        let result = sandbox.exec(&request).await?;
        if result.stdout_text() != expected || !has_ended(&result) {
            return Ok(Some(format!("{result:?}, not {expected:?}")));
        }
    }
    if let Some(wrong) = typed(sandbox).await? {
        return Ok(Some(wrong));
    }
    let reads_on = ExecRequest::shell("cat; cat").timeout(SHORT);
    let reads_on = reads_on.terminal(TerminalSize::default());
    let result = sandbox.exec(&reads_on).await?;
    if result.outcome != Outcome::TimedOut {
        return Ok(Some(format!(
            "it read on after its input: {}",
            result.outcome
        )));
    }
    let mut execution = sandbox
        .start(
            &shell("exit 3").terminal(TerminalSize::default()),
            Stdin::Null,
        )
        .await?;
    let ended = execution.wait().await?;
    // Nothing is left to resize.
    execution.resize(TerminalSize::new(1, 1)).await?;
    let is_same = execution.wait().await? == ended && ended.exit_code() == Some(3);
    Ok((!is_same).then(|| format!("resized after its end: {ended:?}")))
}

/// Both streams are one, and the program has exited by itself.
fn has_ended(result: &ExecResult) -> bool {
    result.success() && result.stderr.total == 0
}

/// What is typed is shown, and the program reads it.
async fn typed(sandbox: &SandboxHandle) -> Deviation {
    let read = "read line; echo \"<$line>\"";
    let request = shell(read).terminal(TerminalSize::default());
    let stdin = Stdin::from_bytes(*b"one two\n");
    let result = sandbox.exec_with(&request, stdin, |_, _| {}).await?;
    let text = result.stdout_text();
    let is_right = text == "one two\r\n<one two>\r\n" && has_ended(&result);
    Ok((!is_right).then(|| format!("typed: {text:?}, {}", result.outcome)))
}
