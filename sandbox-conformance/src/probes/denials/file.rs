//! A file that is not given out.

use sandbox_core::DenialKind;

use super::TOLD;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "denials::file",
    version: 1,
    subject: Subject::Feature(Feature::Denials),
    kind: Kind::Behavior,
    summary: "has a link fetched, and wants the caller to be told why it is not",
    setting: plain,
    permitting: None,
    denials: TOLD,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let (file, link) = (stage.inside("file"), stage.inside("link"));
    stage.host_control(&Call::new(["alive"])).await?;
    stage
        .allow_control(&Call::new(["make", &link, "1", &file]))
        .await;
    let attempt = stage
        .with_sandbox(async |sandbox| {
            let error = match sandbox.handle().fetch(&link, 1 << 20).await {
                Ok(_) => return Attempt::succeeded(),
                Err(error) => error,
            };
            let told = |denial: &sandbox_core::Denial| denial.kind == DenialKind::FileRead;
            match error.denials().iter().any(told) {
                true => Attempt::blocked(["told"]),
                false => Attempt::unclear(error.to_string()),
            }
        })
        .await;
    stage.attack_was(Step::new(
        "fetch the link",
        attempt.unwrap_or_else(|declined| declined),
    ));
    stage.nothing_to_watch("the link leads nowhere");
    Ok(())
}
