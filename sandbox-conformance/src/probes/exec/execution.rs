//! The methods of a started execution.

use std::time::Duration;

use futures_util::StreamExt as _;
use sandbox_core::{
    ErrorKind, ExecEvent, ExecRequest, Execution, SandboxHandle, Stdin, StdinWriter, TerminalSize,
};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::stop::Log;
use crate::probes::prelude::*;

/// How long what must happen may take.
const LIMIT: Duration = Duration::from_secs(20);

pub(super) async fn run(sandbox: &SandboxHandle) -> Deviation {
    for check in [
        refused_orders(sandbox).await?,
        one_process(sandbox).await?,
        after_the_end(sandbox).await?,
        rest_of_output(sandbox).await?,
        repeated_wait(sandbox).await?,
        closed_by_wait(sandbox).await?,
        ended_by_receiver(sandbox).await?,
        unread_input(sandbox).await?,
        unread_output(sandbox).await?,
        as_an_error(sandbox).await?,
    ] {
        if check.is_some() {
            return Ok(check);
        }
    }
    Ok(None)
}

async fn start(
    sandbox: &SandboxHandle,
    script: &str,
    stdin: Stdin,
) -> sandbox_core::Result<Execution> {
    let request = ExecRequest::shell(script).timeout(LIMIT);
    sandbox.start(&request, stdin).await
}

/// Reads events until standard output has this text, and returns all of it.
async fn until(execution: &mut Execution, text: &str) -> sandbox_core::Result<String> {
    let mut seen = String::new();
    while !seen.contains(text) {
        match execution.next_event().await? {
            Some(ExecEvent::Stdout(bytes)) => seen += &String::from_utf8_lossy(&bytes),
            Some(ExecEvent::Started) => {}
            _ => break,
        }
    }
    Ok(seen)
}

/// The writer of its input, which can be taken once.
fn taken(execution: &mut Execution) -> Result<StdinWriter, String> {
    let first = execution.take_stdin();
    match (first, execution.take_stdin()) {
        (Some(writer), None) => Ok(writer),
        (None, _) => Err("there is no input to write to".to_owned()),
        (Some(_), Some(_)) => Err("there are two writers of one input".to_owned()),
    }
}

/// Signals that do not exist, and the size of a terminal that is not there.
async fn refused_orders(sandbox: &SandboxHandle) -> Deviation {
    let mut execution = start(sandbox, "read x; exit 6", Stdin::Piped).await?;
    let told = [
        execution.signal(0).await,
        execution.signal(65).await,
        execution.resize(TerminalSize::new(1, 1)).await,
    ];
    let is_refused = |told: &sandbox_core::Result<()>| {
        let error = told.as_ref().err();
        error.is_some_and(|error| error.kind() == ErrorKind::InvalidRequest)
    };
    let result = execution.wait().await?;
    if !told.iter().all(is_refused) {
        return Ok(Some(format!("signals 0 and 65, and a size: {told:?}")));
    }
    let none = start(sandbox, "exit", Stdin::Null).await?.take_stdin();
    if none.is_some() {
        return Ok(Some("there is a writer of no input".to_owned()));
    }
    let piped = ExecRequest::shell("exit 0");
    match sandbox.exec_with(&piped, Stdin::Piped, |_, _| {}).await {
        Err(error) if error.kind() == ErrorKind::InvalidRequest => {}
        ended => return Ok(Some(format!("a pipe that nobody can write to: {ended:?}"))),
    }
    // Nothing of that ended it, and the wait ended its input.
    Ok((result.exit_code() != Some(6)).then(|| format!("after these: {}", result.outcome)))
}

/// A signal goes to the main process only. Where nothing is isolated, the child outlives it, and
/// ends after half a minute.
async fn one_process(sandbox: &SandboxHandle) -> Deviation {
    let script = "
        (trap 'echo child' TERM; echo ready; for i in $(seq 600); do sleep 0.05; done) &
        trap 'sleep 0.2; echo main; exit 4' TERM
        echo ready
        while :; do sleep 0.05; done";
    let mut execution = start(sandbox, script, Stdin::Null).await?;
    let mut text = until(&mut execution, "ready\nready\n").await?;
    execution.signal(15).await?;
    let result = execution.wait().await?;
    text += &result.stdout_text();
    let is_right = text == "ready\nready\nmain\n" && result.exit_code() == Some(4);
    let is_right = is_right && result.stragglers > 0;
    Ok((!is_right).then(|| {
        let stragglers = result.stragglers;
        format!(
            "a signal: {text:?}, {}, {stragglers} stragglers",
            result.outcome
        )
    }))
}

/// Nothing that is asked after the end changes the result.
async fn after_the_end(sandbox: &SandboxHandle) -> Deviation {
    let script = "echo some; echo error >&2; exit 8";
    let mut execution = start(sandbox, script, Stdin::Piped).await?;
    let mut writer = match taken(&mut execution) {
        Ok(writer) => writer,
        Err(wrong) => return Ok(Some(wrong)),
    };
    let mut last = None;
    while let Some(event) = execution.next().await {
        last = Some(event?);
    }
    let Some(ExecEvent::Exited(ended)) = last else {
        return Ok(Some(format!("the last event is {last:?}")));
    };
    execution.signal(9).await?;
    execution.kill().await;
    let written = timeout(LIMIT, async {
        // What was on its way when the program ended is buffered.
        loop {
            if let Err(error) = writer.write_all(&[b'x'; 4096]).await {
                return error.kind();
            }
        }
    });
    let written = written.await;
    let waited = [execution.wait().await?, execution.wait().await?];
    let after = execution.next_event().await?;
    let lengths = [&ended.stdout, &ended.stderr].map(|stream| (stream.bytes.len(), stream.total));
    let is_right = waited.iter().all(|result| *result == *ended)
        && after.is_none()
        && ended.exit_code() == Some(8)
        && lengths == [(0, 5), (0, 6)]
        && written == Ok(std::io::ErrorKind::BrokenPipe);
    Ok((!is_right)
        .then(|| format!("after its end: {ended:?}, {waited:?}, {after:?}, written: {written:?}")))
}

/// What is read before counts, and what is left is kept.
async fn rest_of_output(sandbox: &SandboxHandle) -> Deviation {
    let script = "echo first; read x; echo second; echo third >&2";
    let mut execution = start(sandbox, script, Stdin::Piped).await?;
    until(&mut execution, "first\n").await?;
    let result = execution.wait().await?;
    let (stdout, stderr) = (&result.stdout, &result.stderr);
    let is_right = stdout.bytes == b"second\n"
        && stdout.total == 13
        && stderr.bytes == b"third\n"
        && stderr.total == 6
        && result.success()
        && result.timeout == LIMIT;
    Ok((!is_right).then(|| format!("after the first line: {result:?}")))
}

/// A wait that is given up loses nothing.
async fn repeated_wait(sandbox: &SandboxHandle) -> Deviation {
    let script = "echo one; read x; echo two";
    let mut execution = start(sandbox, script, Stdin::Piped).await?;
    let mut writer = match taken(&mut execution) {
        Ok(writer) => writer,
        Err(wrong) => return Ok(Some(wrong)),
    };
    if let Ok(ended) = timeout(Duration::from_millis(150), execution.wait()).await {
        return Ok(Some(format!("its input is open, and it ended: {ended:?}")));
    }
    if let Err(error) = writer.write_all(b"x\n").await {
        return Ok(Some(format!("a wait has closed its input: {error}")));
    }
    let result = execution.wait().await?;
    let is_right = result.stdout.bytes == b"one\ntwo\n" && result.stdout.total == 8;
    Ok((!is_right).then(|| format!("a second wait: {result:?}")))
}

/// A wait ends the input, unless its writer was taken. The end of the writer ends it too.
async fn closed_by_wait(sandbox: &SandboxHandle) -> Deviation {
    for way in ["waited for", "dropped", "shut down"] {
        let mut execution = start(sandbox, "cat; exit 2", Stdin::Piped).await?;
        let mut kept = None;
        if way != "waited for" {
            let mut writer = match taken(&mut execution) {
                Ok(writer) => writer,
                Err(wrong) => return Ok(Some(wrong)),
            };
            let written = writer.write_all(b"text").await;
            if way == "shut down" && written.is_ok() && writer.shutdown().await.is_ok() {
                kept = Some(writer);
            }
        }
        let result = execution.wait().await?;
        drop(kept);
        let text = if way == "waited for" { "" } else { "text" };
        if result.exit_code() != Some(2) || result.stdout_text() != text {
            return Ok(Some(format!("an input that is {way}: {result:?}")));
        }
    }
    Ok(None)
}

/// A receiver that takes no more ends the execution.
async fn ended_by_receiver(sandbox: &SandboxHandle) -> Deviation {
    let request = ExecRequest::shell("echo start; sleep 15").timeout(LIMIT);
    let mut receiver = Log::new(1);
    let result = sandbox
        .exec_to(&request, Stdin::Null, &mut receiver)
        .await?;
    let is_right = result.outcome == Outcome::OutputLimit && receiver.text() == "start\n";
    Ok((!is_right).then(|| format!("a receiver that has enough: {}", result.outcome)))
}

/// More than is buffered between a program and its caller.
const MUCH: usize = 8 << 20;

/// A writer waits while the program does not read, and learns of its end.
async fn unread_input(sandbox: &SandboxHandle) -> Deviation {
    let mut execution = start(sandbox, "sleep 15", Stdin::Piped).await?;
    let mut writer = match taken(&mut execution) {
        Ok(writer) => writer,
        Err(wrong) => return Ok(Some(wrong)),
    };
    let content = vec![b'x'; MUCH];
    let written = timeout(UNREAD, writer.write_all(&content)).await;
    execution.kill().await;
    execution.wait().await?;
    let after = timeout(LIMIT, writer.write_all(&content)).await;
    let is_broken =
        matches!(&after, Ok(Err(error)) if error.kind() == std::io::ErrorKind::BrokenPipe);
    Ok((written.is_ok() || !is_broken).then(|| format!("unread: {written:?}, then {after:?}")))
}

/// How long nobody reads, which is longer than the program's time limit. A slow machine needs most
/// of that to start it.
const UNREAD: Duration = Duration::from_millis(1500);
const SHORT: Duration = Duration::from_secs(1);

/// A program waits for a caller that does not read, and its time limit continues.
async fn unread_output(sandbox: &SandboxHandle) -> Deviation {
    let request = ExecRequest::new("cat").arg("/dev/zero").timeout(SHORT);
    let mut execution = sandbox.start(&request, Stdin::Null).await?;
    tokio::time::sleep(UNREAD).await;
    let result = execution.wait().await?;
    let is_right =
        result.outcome == Outcome::TimedOut && (1..MUCH as u64).contains(&result.stdout.total);
    Ok((!is_right).then(|| format!("unread: {}, {} bytes", result.outcome, result.stdout.total)))
}

/// The error of a program that failed has its outcome and the end of its standard error.
async fn as_an_error(sandbox: &SandboxHandle) -> Deviation {
    for (script, outcome) in [
        ("echo the reason >&2; exit 9", "exited with code 9"),
        ("echo the reason >&2; kill -s KILL $$", "ended by signal 9"),
    ] {
        let result = sandbox.shell(script).await?;
        let error = result.check().err();
        let is_right = error.as_ref().is_some_and(|error| {
            let text = error.to_string();
            let is_told = text.contains(outcome) && text.contains("the reason");
            error.kind() == ErrorKind::ProgramFailed && is_told
        });
        if !is_right || result.output() != "the reason\n" {
            return Ok(Some(format!("{script}: {error:?}")));
        }
    }
    Ok(None)
}
