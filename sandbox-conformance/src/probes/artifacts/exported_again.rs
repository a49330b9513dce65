//! An export after an export.

use std::path::Path;

use sandbox_core::ArtifactLimits;

use crate::pool::Sandbox;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "artifacts::exported_again",
    version: 1,
    subject: Subject::Capability(Capability::ArtifactExportPaths),
    kind: Kind::Behavior,
    summary: "exports two files, changes one, renames the other, and exports again",
    setting: super::exporting,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let folder = stage.grounds().export_folder();
    let [changed, renamed] =
        ["changed", "renamed"].map(|word| format!("{}-{word}.txt", stage.token()));
    let output = stage.output_folder()?;
    let inside = |name: &str| format!("{folder}/{name}");
    let make = |name: &str, length: &str| Call::new(["make", &inside(name), "0", length]);
    super::make(stage, &inside(&renamed), &["0", "9"]).await?;
    let rename = Call::new([
        "rename",
        &inside(&renamed),
        &inside(&format!("{renamed}-not")),
    ]);
    let (before, after) = ([make(&changed, "9")], [make(&changed, "70000"), rename]);
    let names = [changed.as_str(), renamed.as_str()];
    let told = stage
        .with_sandbox(async |sandbox| {
            let first = exported(sandbox, &before, &output.join("first"), names).await;
            let second = exported(sandbox, &after, &output.join("second"), names).await;
            let right = (Ok([Some(9), Some(9)]), Ok([Some(70_000), None]));
            (right != (first.clone(), second.clone()))
                .then(|| format!("{first:?}, then {second:?}"))
        })
        .await;
    stage.attack_was(behavior("export again", told));
    stage.nothing_to_watch("the comparison is the test");
    Ok(())
}

/// Runs the calls, exports, and gives the lengths of the files of these names, where they came out.
async fn exported(
    sandbox: &Sandbox,
    calls: &[Call],
    output: &Path,
    names: [&str; 2],
) -> Result<[Option<u64>; 2], String> {
    for call in calls {
        let run = sandbox.run(call).await.map_err(|error| error.to_string())?;
        let attempt = run.attempt(None);
        if !attempt.is_success() {
            return Err(format!("{}: {attempt:?}", call.text()));
        }
    }
    crate::grounds::make_folder(output).map_err(|trouble| trouble.to_string())?;
    let limits = ArtifactLimits::default();
    let export = sandbox.handle().export(output, limits).await;
    export.map_err(|error| error.to_string())?;
    let length = |name| {
        let file = std::fs::metadata(found_below(output, name)?);
        file.ok().map(|file| file.len())
    };
    Ok(names.map(length))
}
