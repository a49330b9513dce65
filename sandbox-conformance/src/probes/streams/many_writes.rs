//! A program that writes more than its reader reads.

use sandbox_core::{ExecEvent, Stdin};
use std::time::Duration;

use crate::probes::prelude::*;

const LINES: usize = 10_000;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let call = Call::new(["lines", &LINES.to_string(), "7"]);
    let expected: Vec<u8> = (0..LINES)
        .flat_map(|number| format!("{number}\n").into_bytes())
        .collect();
    let run = host::run(&context.fixture().program(), &call).await?;
    let right = run.stdout == expected
        && run.stderr == expected
        && run.outcome == (Outcome::Exited { code: 7 });
    let failure = (!right).then(|| format!("{} bytes, {}", run.stdout_total, run.outcome));
    context.record_host_control(control("write the lines on the host", failure));
    context.allow_control(&Call::new(["alive"])).await;
    let deviation = context
        .with_sandbox(async |sandbox| {
            let request = sandbox.request(&call);
            let mut execution = sandbox.handle().start(&request, Stdin::Null).await?;
            let (mut stdout, mut stderr, mut pieces) = (Vec::new(), Vec::new(), 0);
            while let Some(event) = execution.next_event().await? {
                match event {
                    ExecEvent::Stdout(bytes) => stdout.extend_from_slice(&bytes),
                    ExecEvent::Stderr(bytes) => stderr.extend_from_slice(&bytes),
                    _ => continue,
                }
                pieces += 1;
                // Long enough to fill every buffer; output resumes later so that the program ends.
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
    let deviation =
        deviation.map(|deviation| deviation.unwrap_or_else(|error| Some(error.to_string())));
    context.record_attack(behavior("read slowly", deviation));
    context.no_host_effect("output does not affect the host");
    Ok(())
}
