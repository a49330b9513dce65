//! Leases, which make others wait who open the file.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::leases",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "takes a lease of a file and watches a folder by signals",
    setting: plain,
    permitting: None,
    denials: signs::FORBIDDEN,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let folder = stage.outside()?;
    let control = Call::new(["lease"]).and(folder.join("leased")).and(&folder);
    stage.host_control(&control).await?;
    let own = stage.inside("own");
    stage.allow_control(&Call::new(["create", &own])).await;
    let file = stage.inside("leased");
    stage.attack(&Call::new(["lease", &file, "/tmp"])).await;
    stage.nothing_to_watch("a lease ends with the program");
    Ok(())
}
