//! A detached sandbox for a second client, and a name that no other may take.

use sandbox_core::ErrorKind;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "detached::found_by_name",
    version: 1,
    subject: Subject::Feature(Feature::Detached),
    kind: Kind::Behavior,
    summary: "finds a detached sandbox with a second client: by its name, in the list, and no other of its name",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    super::with_detached(stage, "find it by name", async |sandbox, name, client| {
        if !client.list().await?.iter().any(|info| info.name == name) {
            return Ok(Some("it is not listed".to_owned()));
        }
        if let Some(wrong) = super::alive(client, name, sandbox.program()).await? {
            return Ok(Some(wrong));
        }
        match client.get(&format!("{name}-not")).await {
            Err(error) if error.kind() == ErrorKind::SandboxNotFound => Ok(None),
            Err(error) => Ok(Some(format!("an unknown name: {error}"))),
            Ok(_) => Ok(Some("a name that nobody gave was found".to_owned())),
        }
    })
    .await?;
    stage.nothing_to_watch("what is asked for is that it is there");
    Ok(())
}
