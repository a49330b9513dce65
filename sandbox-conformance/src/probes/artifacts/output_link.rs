//! A link where the host's output folder was, in a folder that code can write to.

use sandbox_core::ArtifactLimits;

use crate::grounds::make_folder;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "artifacts::output_link",
    version: 1,
    subject: Subject::Capability(Capability::ArtifactExportPaths),
    kind: Kind::Isolation,
    summary: "replaces the output folder, which lies in a write root, by a link to a folder of the host",
    setting: exporting,
    permitting: None,
    denials: NOT_FOLLOWED,
    run: |stage| Box::pin(run(stage)),
};

const NOT_FOLLOWED: &[Denial] = &[
    Denial {
        sign: "error:io",
        means: "a link that the code can have made is not followed",
    },
    Denial {
        sign: "elsewhere",
        means: "the artifact is written beside the link",
    },
];

/// A sandbox that may write to the write root, and of which text files in one folder may be exported.
fn exporting(grounds: &Grounds) -> Setting {
    let policy = super::exporting(grounds).policy;
    let mut setting = grounds.rooted();
    setting.policy.artifact_export_paths = policy.artifact_export_paths;
    setting
}

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let victim = stage.outside()?.join(format!("victim-{}", stage.token()));
    make_folder(&victim)?;
    let output = stage
        .write_folder()?
        .join(format!("output-{}", stage.token()));
    let name = format!("{}.txt", stage.token());
    let own = stage.outside()?.join(format!("link-{}", stage.token()));
    std::os::unix::fs::symlink(&victim, &own)?;
    let through = own.join("control");
    stage
        .host_control(&Call::new(["make"]).and(&through).and("0").and("9"))
        .await?;
    std::fs::remove_file(victim.join("control"))?;
    let path = format!("{}/{name}", stage.grounds().export_folder());
    stage
        .allow_control(&Call::new(["make", &path, "0", "9"]))
        .await;
    let plant = Call::new(["make"]).and(&output).and("1").and(&victim);
    let attempt = stage
        .with_sandbox(async |sandbox| {
            match sandbox.run(&plant).await.map(|run| run.attempt(None)) {
                Ok(attempt) if attempt.is_success() => {}
                other => return Attempt::unclear(format!("{other:?}")),
            }
            let export = sandbox.handle().export(&output, ArtifactLimits::default());
            let exported = export.await;
            match (found_below(&victim, &name), exported) {
                (Some(_), _) => Attempt::succeeded(),
                (None, Ok(_)) => Attempt::blocked(["elsewhere"]),
                (None, Err(error)) => {
                    Attempt::blocked([format!("error:{}", error.kind().as_str())])
                }
            }
        })
        .await;
    stage.attack_was(Step::new(
        "export into a folder that became a link",
        attempt.unwrap_or_else(|declined| declined),
    ));
    let clean = std::fs::read_dir(&victim)?.next().is_none();
    stage.watched("the folder that the link leads to", clean);
    Ok(())
}
