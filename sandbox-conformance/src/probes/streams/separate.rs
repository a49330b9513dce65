//! Standard output and standard error apart.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "streams::separate",
    version: 1,
    subject: Subject::Feature(Feature::Streams),
    kind: Kind::Behavior,
    summary: "writes to both streams in turn and compares each",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = Call::new(["both", "out", "error"]);
    let run = host::run(&stage.grounds().program(), &call).await?;
    let (out, error) = (run.stdout, run.stderr);
    let failure = (out != b"outoutoutout").then(|| "the host's output differs".to_owned());
    stage.host_control_was(control("write to both on the host", failure));
    stage.allow_control(&Call::new(["alive"])).await;
    let told = stage.execute(&call).await.map(|result| {
        let differs = result.stdout.bytes != out || result.stderr.bytes != error;
        differs.then(|| format!("{:?} and {:?}", result.stdout_text(), result.stderr_text()))
    });
    stage.attack_was(behavior("write to both", told));
    stage.nothing_to_watch("output is no matter of the host");
    Ok(())
}
