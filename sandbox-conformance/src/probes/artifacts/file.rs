//! A file comes out as it was.

use sandbox_core::ArtifactLimits;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "artifacts::file",
    version: 1,
    subject: Subject::Capability(Capability::ArtifactExportPaths),
    kind: Kind::Behavior,
    summary: "exports a file and compares content, size and hash",
    setting: super::exporting,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let name = format!("{}.txt", stage.token());
    let output = stage.output_folder()?;
    let content: Vec<u8> = (0..70_000).map(|index| (index % 251) as u8).collect();
    let path = format!("{}/{name}", stage.grounds().export_folder());
    super::make(stage, &path, &["0", "70000"]).await?;
    let told = stage
        .with_sandbox(async |sandbox| {
            let export = match sandbox
                .handle()
                .export(&output, ArtifactLimits::default())
                .await
            {
                Ok(export) => export,
                Err(error) => return Some(error.to_string()),
            };
            let Some(artifact) = export
                .artifacts
                .iter()
                .find(|artifact| artifact.source.ends_with(&name))
            else {
                return Some(format!("it did not come out: {:?}", export.skipped));
            };
            let same = std::fs::read(&artifact.path).ok().as_ref() == Some(&content)
                && artifact.path.starts_with(&output)
                && artifact.size_bytes == content.len() as u64
                && artifact.blake3 == blake3::hash(&content).to_hex().as_str();
            (!same).then(|| format!("{artifact:?}"))
        })
        .await;
    stage.attack_was(behavior("export a file", told));
    stage.nothing_to_watch("the comparison is the test");
    Ok(())
}
