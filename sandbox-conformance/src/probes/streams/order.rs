//! The order of what one stream carries, live and kept.

use sandbox_core::spi::OutputStream;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "streams::order",
    version: 1,
    subject: Subject::Feature(Feature::Streams),
    kind: Kind::Behavior,
    summary: "compares what comes live on each stream with what was written and with what is kept",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = Call::new(["lines", "2000", "0"]);
    let written = host::run(&stage.grounds().program(), &call).await?.stdout;
    let failure =
        (!written.ends_with(b"1998\n1999\n")).then(|| "the host's lines differ".to_owned());
    stage.host_control_was(control("write the lines on the host", failure));
    stage.allow_control(&Call::new(["alive"])).await;
    let told = stage
        .with_sandbox(async |sandbox| {
            let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
            let live = |stream, bytes: &[u8]| match stream {
                OutputStream::Stdout => stdout.extend_from_slice(bytes),
                OutputStream::Stderr => stderr.extend_from_slice(bytes),
            };
            let request = sandbox.request(&call);
            match sandbox.handle().exec_live(&request, None, live).await {
                Ok(result) => [stdout, stderr, result.stdout.bytes, result.stderr.bytes]
                    .iter()
                    .any(|got| *got != written)
                    .then(|| format!("{}; the lines differ", result.outcome)),
                Err(error) => Some(error.to_string()),
            }
        })
        .await;
    stage.attack_was(behavior("compare the lines", told));
    stage.nothing_to_watch("output is no matter of the host");
    Ok(())
}
