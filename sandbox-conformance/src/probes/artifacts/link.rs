//! A symbolic link among the artifacts.

use sandbox_core::{ArtifactLimits, SkipReason};

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "artifacts::link",
    version: 1,
    subject: Subject::Capability(Capability::ArtifactExportPaths),
    kind: Kind::Isolation,
    summary: "exports a symbolic link to a file of the host",
    setting: super::exporting,
    permitting: None,
    denials: NOT_FOLLOWED,
    run: |stage| Box::pin(run(stage)),
};

const NOT_FOLLOWED: &[Denial] = &[Denial {
    sign: "skipped",
    means: "links are not followed",
}];

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let canary = stage.canary(0o644)?;
    let output = stage.output_folder()?;
    let own = stage.outside()?.join("own.txt");
    std::os::unix::fs::symlink(canary.path(), &own)?;
    stage
        .host_control(&Call::new(["read"]).and(&own).expect(canary.fingerprint()))
        .await?;
    let name = format!("{}.txt", stage.token());
    let path = format!("{}/{name}", stage.grounds().export_folder());
    stage
        .allow_control(&Call::new(["make", &path, "1"]).and(canary.path()))
        .await;
    let attempt = stage
        .with_sandbox(async |sandbox| {
            match sandbox
                .handle()
                .export(&output, ArtifactLimits::default())
                .await
            {
                Err(error) => Attempt::blocked([format!("error:{}", error.kind().as_str())]),
                Ok(export) => {
                    let skipped = export
                        .skipped
                        .iter()
                        .any(|s| s.source.ends_with(&name) && s.reason == SkipReason::Symlink);
                    let leaked = found_below(&output, &name)
                        .and_then(|file| std::fs::read(file).ok())
                        .is_some_and(|content| content == canary.content());
                    let sign = if skipped {
                        "skipped"
                    } else {
                        "silently_left_out"
                    };
                    Attempt::leak_if(leaked, sign)
                }
            }
        })
        .await;
    stage.attack_was(Step::new(
        "export a link",
        attempt.unwrap_or_else(|declined| declined),
    ));
    stage.oracle(canary.oracle());
    Ok(())
}
