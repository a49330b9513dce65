//! Limits and priorities of another execution in the same sandbox.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::limits_of_another",
    version: 1,
    subject: Subject::Capability(Capability::Processes),
    kind: Kind::Isolation,
    summary: "changes limits, priority and scheduling class of another execution",
    setting: plain,
    permitting: None,
    denials: signs::FORBIDDEN,
    run: |stage| Box::pin(run(stage)),
};

/// How long the other execution lets itself be disturbed.
const WAIT: &str = "2500";

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let program = stage.grounds().program();
    let control = stage.outside()?.join(format!("{}-pid", stage.token()));
    let wait = |path: &std::path::Path| Call::new(["undisturbed"]).and(path).and(WAIT);
    let disturb = |path: &std::path::Path| Call::new(["disturb"]).and(path);
    let other = host::spawn(&program, &wait(&control))?;
    stage.host_control(&disturb(&control)).await?;
    drop(other);
    stage.allow_control(&Call::new(["disturb-itself"])).await;
    let path = std::path::PathBuf::from(stage.inside("pid"));
    let (wait, disturb) = (wait(&path), disturb(&path));
    let runs = stage
        .with_sandbox(async |sandbox| tokio::join!(sandbox.run(&wait), sandbox.run(&disturb)))
        .await;
    match runs {
        Ok((other, attack)) => {
            let attack = attack?;
            let attempt = attack.attempt(None);
            stage.attack_was(crate::stage::recorded(&disturb, attempt, &attack));
            stage.watched(
                "the other execution, as it tells",
                other?.attempt(None).is_success(),
            );
        }
        Err(declined) => stage.attack_was(Step::new(disturb.text(), declined)),
    }
    Ok(())
}
