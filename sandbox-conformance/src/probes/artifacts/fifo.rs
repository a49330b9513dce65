//! A FIFO among the artifacts: who opens it waits for ever.

use std::time::Duration;

use sandbox_core::{ArtifactLimits, SkipReason};

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "artifacts::fifo",
    version: 1,
    subject: Subject::Capability(Capability::ArtifactExportPaths),
    kind: Kind::Behavior,
    summary: "exports a FIFO and wants an answer within 5 s",
    setting: super::exporting,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

/// The longest that an export of next to nothing may take.
const PATIENCE: Duration = Duration::from_secs(5);

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let output = stage.output_folder()?;
    let name = format!("{}.txt", stage.token());
    let path = format!("{}/{name}", stage.grounds().export_folder());
    super::make(stage, &path, &["2"]).await?;
    let told = stage
        .with_sandbox(async |sandbox| {
            let export = sandbox.handle().export(&output, ArtifactLimits::default());
            match tokio::time::timeout(PATIENCE, export).await {
                Err(_) => Some(format!("no answer within {PATIENCE:?}")),
                Ok(Err(error)) => Some(error.to_string()),
                Ok(Ok(export)) => {
                    let said = export
                        .skipped
                        .iter()
                        .any(|s| s.source.ends_with(&name) && s.reason == SkipReason::SpecialFile);
                    (!said).then(|| format!("not said to be skipped: {:?}", export.skipped))
                }
            }
        })
        .await;
    stage.attack_was(behavior("export a FIFO", told));
    stage.nothing_to_watch("a FIFO holds nothing");
    Ok(())
}
