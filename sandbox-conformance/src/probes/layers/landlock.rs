//! A domain of Landlock.

use super::{named, told};
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "layers::landlock",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "counts how many more Landlock domains it can enter where the report names one",
    setting: plain,
    permitting: None,
    denials: &told("domain"),
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    if !named(stage, super::LANDLOCK).await? {
        return Ok(());
    }
    let call = Call::new(["landlock-room"]);
    let host = stage.host_control(&call).await?;
    stage.allow_control(&Call::new(["alive"])).await;
    // Every domain that a process is in takes one of the room that there is on the host.
    let attempt = match (host, stage.attack(&call).await) {
        (Attempt::Succeeded { value: host }, Attempt::Succeeded { value: inside }) => {
            match (host.parse::<u32>(), inside.parse::<u32>()) {
                (Ok(host), Ok(inside)) => Attempt::leak_if(inside >= host, "domain"),
                _ => Attempt::unclear(format!("{host} and {inside} are no numbers")),
            }
        }
        (_, other) => other,
    };
    stage.attack_was(Step::new("landlock-room, less than on the host", attempt));
    stage.nothing_to_watch("the kernel is only asked");
    Ok(())
}
