//! An artifact that does not come out.

use sandbox_core::{ArtifactLimits, DenialKind};

use super::TOLD;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "denials::artifact",
    version: 1,
    subject: Subject::Feature(Feature::Denials),
    kind: Kind::Behavior,
    summary: "has a link among its artifacts, and wants the caller to be told why it is missing",
    setting: exporting,
    permitting: None,
    denials: TOLD,
    run: |stage| Box::pin(run(stage)),
};

/// A sandbox of which links in one folder would be exported, if they were.
fn exporting(grounds: &Grounds) -> Setting {
    let path = format!("{}/*.denied", grounds.export_folder());
    Setting::with(|policy| policy.artifact_export_paths = vec![path])
}

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let output = stage.output_folder()?;
    let name = format!("{}.denied", stage.token());
    let link = format!("{}/{name}", stage.grounds().export_folder());
    let nowhere = stage.inside("nowhere");
    stage.host_control(&Call::new(["alive"])).await?;
    stage
        .allow_control(&Call::new(["make", &link, "1", &nowhere]))
        .await;
    let attempt = stage
        .with_sandbox(async |sandbox| {
            let limits = ArtifactLimits::default();
            let export = match sandbox.handle().export(&output, limits).await {
                Ok(export) => export,
                Err(error) => return Attempt::unclear(error.to_string()),
            };
            if found_below(&output, &name).is_some() {
                return Attempt::succeeded();
            }
            let told = export
                .denials
                .iter()
                .any(|denial| denial.kind == DenialKind::Artifact && denial.what.contains(&name));
            Attempt::blocked([if told { "told" } else { "untold" }])
        })
        .await;
    stage.attack_was(Step::new(
        "export a link",
        attempt.unwrap_or_else(|declined| declined),
    ));
    stage.nothing_to_watch("the link leads nowhere");
    Ok(())
}
