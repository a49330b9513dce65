//! Standard input that ends while the output goes on.

use std::time::Duration;

use sandbox_core::{ExecEvent, Stdin};
use tokio::io::AsyncWriteExt;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "streams::half_close",
    version: 1,
    subject: Subject::Feature(Feature::Streams),
    kind: Kind::Behavior,
    summary: "closes standard input after a program began to read, and wants its answer and its end",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = Call::new(["reverse"]).timeout(Duration::from_secs(10));
    let run = host::run(&stage.grounds().program(), &call.clone().stdin("abc")).await?;
    let failure = (run.stdout != b"ready\ncba").then(|| "the host's answer differs".to_owned());
    stage.host_control_was(control("reverse on the host", failure));
    stage.allow_control(&Call::new(["alive"])).await;
    let told = stage
        .with_sandbox(async |sandbox| {
            let request = sandbox.request(&call);
            let mut execution = sandbox.handle().start(&request, Stdin::Piped).await?;
            let mut stdin = execution.take_stdin();
            let (mut stdout, mut early) = (Vec::new(), 0);
            while let Some(event) = execution.next().await? {
                let ExecEvent::Stdout(bytes) = event else {
                    continue;
                };
                stdout.extend_from_slice(&bytes);
                if stdout == b"ready\n"
                    && let Some(mut open) = stdin.take()
                {
                    early = stdout.len();
                    // A program that has ended takes nothing, and its answer is missing then.
                    let _ = open.write_all(b"abc").await;
                    let _ = open.shutdown().await;
                }
            }
            let result = execution.wait().await?;
            let right = result.ok() && early == 6 && stdout == b"ready\ncba";
            Ok::<_, sandbox_core::Error>((!right).then(|| {
                let text = String::from_utf8_lossy(&stdout);
                format!("{}, {text:?}", result.outcome)
            }))
        })
        .await;
    let told = told.map(|told| told.unwrap_or_else(|error| Some(error.to_string())));
    stage.attack_was(behavior("close the input", told));
    stage.nothing_to_watch("input is no matter of the host");
    Ok(())
}
