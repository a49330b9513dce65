//! The events of an execution.

use sandbox_core::{ExecEvent, ExecRequest, SandboxHandle, Stdin};

use crate::probes::prelude::*;

/// More output than fits into the buffers at once.
const LENGTH: usize = 1 << 20;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let deviation = context
        .with_sandbox(async |sandbox| {
            let request = ExecRequest::new(sandbox.program()).args(["echo"]);
            // A period that divides no buffer size.
            let content = (0..LENGTH).map(|index| (index % 251) as u8).collect();
            follow(sandbox.handle(), &request, content).await
        })
        .await;
    context.record_attack(behavior("follow the events", deviation));
    context.no_host_effect("output does not affect the host");
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
        let event = match execution.next_event().await {
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
        Some(ExecEvent::Exited(result)) if result.success() && stdout == content => None,
        Some(ExecEvent::Exited(result)) => Some(format!(
            "{}, {} bytes of {LENGTH}",
            result.outcome,
            stdout.len()
        )),
        other => Some(format!("the last event is {other:?}")),
    }
}
