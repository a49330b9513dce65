//! A link where a file is put.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "files::put_through_link",
    version: 1,
    subject: Subject::Feature(Feature::Files),
    kind: Kind::Isolation,
    summary: "puts a file over a symbolic link to a file of the host",
    setting: plain,
    permitting: None,
    denials: super::NOT_FOLLOWED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let canary = stage.canary(0o666)?;
    let target = crate::canary::Canary::plant(&stage.outside()?.join("target"), 0o666)?;
    let link = stage.inside("link");
    let own = stage.outside()?.join("link");
    std::os::unix::fs::symlink(target.path(), &own)?;
    stage
        .host_control(&Call::new(["write"]).and(&own).and("overwritten"))
        .await?;
    stage
        .allow_control(&Call::new(["make", &link, "1"]).and(canary.path()))
        .await;
    let attempt = stage
        .with_sandbox(async |sandbox| {
            let source: sandbox_core::spi::Source = Box::new(b"overwritten".as_slice());
            match sandbox.handle().put(&link, 0o644, source).await {
                // Where it went is for the oracle to say.
                Ok(()) => Attempt::blocked(["unreached"]),
                Err(error) => Attempt::blocked([format!("error:{}", error.kind().as_str())]),
            }
        })
        .await;
    stage.attack_was(Step::new(
        "put over the link",
        attempt.unwrap_or_else(|declined| declined),
    ));
    stage.oracle(canary.oracle());
    Ok(())
}
