//! A link in place of the host's output folder, in a folder that code can write.

use crate::host_fixture::make_folder;
use crate::probes::prelude::*;

pub(super) const NOT_FOLLOWED: &[ExpectedDenial] = &[
    denied(
        "error:io",
        "links that code may have created are not followed",
    ),
    denied(
        "elsewhere",
        "the artifact is written to another folder than the link's",
    ),
];

/// A sandbox with the write root that may export text files from one folder.
pub(super) fn exporting(fixture: &HostFixture) -> SandboxSetup {
    let policy = super::exporting(fixture).policy;
    let mut setup = fixture.rooted();
    setup.policy.artifact_export_paths = policy.artifact_export_paths;
    setup
}

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let victim = context
        .outside()?
        .join(format!("victim-{}", context.token()));
    make_folder(&victim)?;
    let output = context
        .write_folder()?
        .join(format!("output-{}", context.token()));
    let name = format!("{}.txt", context.token());
    let own = context.outside()?.join(format!("link-{}", context.token()));
    std::os::unix::fs::symlink(&victim, &own)?;
    let through = own.join("control");
    context
        .host_control(&Call::new(["make"]).and(&through).and("0").and("9"))
        .await?;
    std::fs::remove_file(victim.join("control"))?;
    let path = format!("{}/{name}", context.fixture().export_folder());
    context
        .allow_control(&Call::new(["make", &path, "0", "9"]))
        .await;
    let plant = Call::new(["make"]).and(&output).and("1").and(&victim);
    let attempt = context
        .with_sandbox(async |sandbox| {
            match sandbox.run(&plant).await.map(|run| run.attempt(None)) {
                Ok(attempt) if attempt.is_success() => {}
                other => return Attempt::unclear(format!("{other:?}")),
            }
            let export = sandbox.handle().export(&output);
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
    context.record_attack(Step::new(
        "export into a folder that became a link",
        attempt.unwrap_or_else(|declined| declined),
    ));
    let clean = std::fs::read_dir(&victim)?.next().is_none();
    context.check_host("the folder that the link leads to", clean);
    Ok(())
}
