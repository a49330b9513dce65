//! A link where a file is fetched.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "files::fetch_through_link",
    version: 1,
    subject: Subject::Feature(Feature::Files),
    kind: Kind::Isolation,
    summary: "fetches a symbolic link to a file of the host",
    setting: plain,
    permitting: None,
    denials: super::NOT_FOLLOWED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let canary = stage.canary(0o644)?;
    let link = stage.inside("link");
    let own = stage.outside()?.join("link");
    std::os::unix::fs::symlink(canary.path(), &own)?;
    stage
        .host_control(&Call::new(["read"]).and(&own).expect(canary.fingerprint()))
        .await?;
    stage
        .allow_control(&Call::new(["make", &link, "1"]).and(canary.path()))
        .await;
    let attempt = stage
        .with_sandbox(
            async |sandbox| match sandbox.handle().fetch(&link, 1 << 20).await {
                Ok(content) => Attempt::leak_if(content == canary.content(), "unreached"),
                Err(error) => Attempt::blocked([format!("error:{}", error.kind().as_str())]),
            },
        )
        .await;
    stage.attack_was(Step::new(
        "fetch the link",
        attempt.unwrap_or_else(|declined| declined),
    ));
    stage.oracle(canary.oracle());
    Ok(())
}
