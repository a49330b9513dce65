//! A device of the host, by its numbers.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::device_node",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "makes a node for the kernel's log and opens it",
    setting: plain,
    permitting: None,
    denials: signs::FORBIDDEN,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    // A folder on disk: a host's /tmp may be mounted without devices.
    let node = stage.outside()?.join("node");
    let call = |node: &std::path::Path| Call::new(["device"]).and(node).and("1").and("11");
    stage.host_control(&call(&node)).await?;
    let own = stage.inside("node");
    stage.allow_control(&Call::new(["create", &own])).await;
    stage
        .attack(&call(std::path::Path::new(&stage.inside("device"))))
        .await;
    stage.nothing_to_watch("a node in the sandbox is none on the host");
    Ok(())
}
