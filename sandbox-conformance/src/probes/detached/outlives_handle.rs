//! A detached sandbox whose handle is dropped.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "detached::outlives_handle",
    version: 1,
    subject: Subject::Feature(Feature::Detached),
    kind: Kind::Behavior,
    summary: "drops the handle of a detached sandbox, and wants its files and its program there",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    super::with_detached(stage, "drop the handle", async |sandbox, name, client| {
        let (handle, program) = sandbox.into_parts();
        let own = handle.name().to_owned();
        drop(handle);
        if own != name {
            return Ok(Some(format!("it is named {own}")));
        }
        super::alive(client, name, &program).await
    })
    .await?;
    stage.nothing_to_watch("what is asked for is that it is there");
    Ok(())
}
