//! A file that no export path names.

use sandbox_core::ArtifactLimits;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "artifacts::unlisted",
    version: 1,
    subject: Subject::Capability(Capability::ArtifactExportPaths),
    kind: Kind::Isolation,
    summary: "exports a file that no export path names",
    setting: super::exporting,
    permitting: None,
    denials: NOT_NAMED,
    run: |stage| Box::pin(run(stage)),
};

const NOT_NAMED: &[Denial] = &[Denial {
    sign: "left_inside",
    means: "only what an export path names comes out",
}];

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let output = stage.output_folder()?;
    let folder = stage.grounds().export_folder();
    let [named, unnamed] =
        ["txt", "private"].map(|extension| format!("{}.{extension}", stage.token()));
    super::make(stage, &format!("{folder}/{named}"), &["0", "9"]).await?;
    let make = Call::new(["make", &format!("{folder}/{unnamed}"), "0", "9"]);
    let attempt = stage
        .with_sandbox(async |sandbox| {
            match sandbox.run(&make).await.map(|run| run.attempt(None)) {
                Ok(attempt) if attempt.is_success() => {}
                other => return Attempt::unclear(format!("{other:?}")),
            }
            match sandbox
                .handle()
                .export(&output, ArtifactLimits::default())
                .await
            {
                Ok(_) if found_below(&output, &named).is_none() => {
                    Attempt::unclear("the named file did not come out")
                }
                Ok(_) => Attempt::leak_if(found_below(&output, &unnamed).is_some(), "left_inside"),
                Err(error) => Attempt::unclear(error.to_string()),
            }
        })
        .await;
    stage.attack_was(Step::new(
        "export",
        attempt.unwrap_or_else(|declined| declined),
    ));
    stage.nothing_to_watch("the export's own folder is the test");
    Ok(())
}
