//! A detached sandbox that is removed while it works.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "detached::removed",
    version: 1,
    subject: Subject::Feature(Feature::Detached),
    kind: Kind::Behavior,
    summary: "removes a detached sandbox in which a program runs, and looks for what is left",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let token = format!("{}-attack", stage.token());
    super::with_detached(stage, "remove it", async |sandbox, name, client| {
        let _execution = super::busy(&sandbox, &token).await?;
        client.remove(name).await?;
        super::remains(client, name, &token).await
    })
    .await?;
    stage.watched(
        "processes of the host after the sandbox was removed",
        host::processes_with(&token)?.is_empty(),
    );
    Ok(())
}
