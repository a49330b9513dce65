//! Every byte of standard input and output.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "streams::binary_integrity",
    version: 1,
    subject: Subject::Feature(Feature::Streams),
    kind: Kind::Behavior,
    summary: "sends 1 MiB of every byte value through a program and compares",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    // A period that divides no size of buffer: no loss and no repetition hides in it.
    let content: Vec<u8> = (0..1 << 20)
        .map(|index| (index % 257 % 256) as u8)
        .collect();
    let call = Call::new(["echo"]).stdin(content.clone());
    let run = host::run(&stage.grounds().program(), &call).await?;
    let failure = (run.stdout != content).then(|| "the host's echo differs".to_owned());
    stage.host_control_was(control("echo on the host", failure));
    stage.allow_control(&Call::new(["alive"])).await;
    let told = stage.execute(&call).await.map(|result| {
        let differs = result.stdout.bytes != content || result.stdout.total != content.len() as u64;
        let got = format!("{} bytes, {}", result.stdout.total, result.outcome);
        (differs || !result.ok()).then_some(got)
    });
    stage.attack_was(behavior("echo 1 MiB", told));
    stage.nothing_to_watch("output is no matter of the host");
    Ok(())
}
