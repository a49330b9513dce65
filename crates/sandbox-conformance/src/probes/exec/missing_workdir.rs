//! A working folder that is not there.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "exec::missing_workdir",
    version: 1,
    subject: Subject::Feature(Feature::Exec),
    kind: Kind::Behavior,
    summary: "executes in a folder that does not exist, and wants a typed error",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let missing = format!("/nonexistent/{}", stage.token());
    let failure = std::path::Path::new(&missing)
        .exists()
        .then(|| "it exists".to_owned());
    stage.host_control_was(control("the host has no such folder", failure));
    stage.allow_control(&Call::new(["alive"])).await;
    let told = stage
        .with_sandbox(async |sandbox| {
            let request = sandbox_core::ExecRequest::new(sandbox.program())
                .arg("alive")
                .workdir(missing.clone());
            match sandbox.handle().exec(&request).await {
                Err(error) if error.kind() == sandbox_core::ErrorKind::BadWorkdir => None,
                Err(error) => Some(error.to_string()),
                Ok(result) => Some(format!("it ran: {}", result.outcome)),
            }
        })
        .await;
    stage.attack_was(behavior("execute in what is not there", told));
    stage.nothing_to_watch("nothing runs");
    Ok(())
}
