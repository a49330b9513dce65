//! More standard output than is kept.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "output::stdout_cap",
    version: 1,
    subject: Subject::Capability(Capability::StdoutMaxBytes),
    kind: Kind::Behavior,
    summary: "writes 1,000,000 bytes to stdout with a cap of 65,536",
    setting: |_| Setting::with(|policy| policy.stdout_max_bytes = Some(ByteSize::kib(64))),
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

const CAP: usize = 65_536;

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let call = Call::new(["emit", "1000000", "0"]);
    let run = host::run(&stage.grounds().program(), &call).await?;
    let written = run.stdout;
    let failure =
        (written.len() != 1_000_000).then(|| format!("the host got {} bytes", written.len()));
    stage.host_control_was(control("write to the host", failure));
    stage.allow_control(&Call::new(["alive"])).await;
    let result = stage.execute(&call).await.map(|result| {
        let kept = &result.stdout;
        let right =
            kept.bytes.as_slice() == &written[..CAP] && kept.total == 1_000_000 && kept.truncated();
        let got = format!(
            "kept {} of {} bytes, {}",
            kept.bytes.len(),
            kept.total,
            result.outcome
        );
        (!right || !result.ok()).then_some(got)
    });
    stage.attack_was(behavior("write more than the cap", result));
    stage.nothing_to_watch("output is no matter of the host");
    Ok(())
}
