//! The end of a program that wrote more than its reader wanted to read.

use std::time::Duration;

use sandbox_core::{ExecEvent, Stdin};

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "streams::many_writes",
    version: 1,
    subject: Subject::Feature(Feature::Streams),
    kind: Kind::Behavior,
    summary: "writes 10,000 lines to each stream for a slow reader, and exits with 7",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

const LINES: usize = 10_000;

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = Call::new(["lines", &LINES.to_string(), "7"]);
    let expected: Vec<u8> = (0..LINES)
        .flat_map(|number| format!("{number}\n").into_bytes())
        .collect();
    let run = host::run(&stage.grounds().program(), &call).await?;
    let right = run.stdout == expected
        && run.stderr == expected
        && run.outcome == (Outcome::Exited { code: 7 });
    let failure = (!right).then(|| format!("{} bytes, {}", run.stdout_total, run.outcome));
    stage.host_control_was(control("write the lines on the host", failure));
    stage.allow_control(&Call::new(["alive"])).await;
    let told = stage
        .with_sandbox(async |sandbox| {
            let request = sandbox.request(&call);
            let mut execution = sandbox.handle().start(&request, Stdin::Null).await?;
            let (mut stdout, mut stderr, mut pieces) = (Vec::new(), Vec::new(), 0);
            while let Some(event) = execution.next().await? {
                match event {
                    ExecEvent::Stdout(bytes) => stdout.extend_from_slice(&bytes),
                    ExecEvent::Stderr(bytes) => stderr.extend_from_slice(&bytes),
                    _ => continue,
                }
                pieces += 1;
                // Long enough for every buffer on the way to fill up; later, so that it ends.
                if pieces <= 40 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            let result = execution.wait().await?;
            let right = result.exit_code() == Some(7) && stdout == expected && stderr == expected;
            Ok::<_, sandbox_core::Error>((!right).then(|| {
                let (out, error) = (stdout.len(), stderr.len());
                format!(
                    "{}, {out} and {error} of {} bytes",
                    result.outcome,
                    expected.len()
                )
            }))
        })
        .await;
    let told = told.map(|told| told.unwrap_or_else(|error| Some(error.to_string())));
    stage.attack_was(behavior("read slowly", told));
    stage.nothing_to_watch("output is no matter of the host");
    Ok(())
}
