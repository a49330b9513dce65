//! The events of an execution.

use sandbox_core::{ExecEvent, ExecRequest, SandboxHandle, Stdin};

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "streams::events",
    version: 1,
    subject: Subject::Feature(Feature::Streams),
    kind: Kind::Behavior,
    summary: "follows a program's events: its start, every byte in order, its end last, with the exit code",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

/// Bytes of output: more than fit on the way at once.
const LENGTH: usize = 1 << 20;

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    stage.host_control(&Call::new(["alive"])).await?;
    stage.allow_control(&Call::new(["alive"])).await;
    let told = stage
        .with_sandbox(async |sandbox| {
            let request = ExecRequest::new(sandbox.program()).args(["echo"]);
            // A period that divides no size of a piece.
            let content = (0..LENGTH).map(|index| (index % 251) as u8).collect();
            follow(sandbox.handle(), &request, content).await
        })
        .await;
    stage.attack_was(behavior("follow the events", told));
    stage.nothing_to_watch("output is no matter of the host");
    Ok(())
}

async fn follow(
    sandbox: &SandboxHandle,
    request: &ExecRequest,
    content: Vec<u8>,
) -> Option<String> {
    let stdin = Stdin::from_bytes(content.clone());
    let mut execution = match sandbox.start(request, stdin).await {
        Ok(execution) => execution,
        Err(error) => return Some(error.to_string()),
    };
    let mut stdout = Vec::new();
    let mut before = None;
    loop {
        let event = match execution.next().await {
            Ok(Some(event)) => event,
            Ok(None) => break,
            Err(error) => return Some(error.to_string()),
        };
        match (&before, &event) {
            (None, ExecEvent::Started) => {}
            (None, other) => return Some(format!("the first event is {other:?}")),
            (Some(ExecEvent::Exited(_)), _) => return Some("events after the end".into()),
            (_, ExecEvent::Stdout(bytes)) => stdout.extend_from_slice(bytes),
            (_, ExecEvent::Exited(_)) => {}
            (_, other) => return Some(format!("{other:?}")),
        }
        before = Some(event);
    }
    match before {
        Some(ExecEvent::Exited(result)) if result.ok() && stdout == content => None,
        Some(ExecEvent::Exited(result)) => Some(format!(
            "{}, {} bytes of {LENGTH}",
            result.outcome,
            stdout.len()
        )),
        other => Some(format!("the last event is {other:?}")),
    }
}
