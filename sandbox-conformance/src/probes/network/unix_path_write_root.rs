//! A unix socket of the host that lies in a write root.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "network::unix_path_write_root",
    version: 1,
    subject: Subject::Capability(Capability::NetworkAccess),
    kind: Kind::Isolation,
    summary: "connects to a unix socket of the host in a write root",
    setting: rooted,
    permitting: None,
    denials: signs::NO_SUCH_PEER,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let path = stage.write_folder()?.join("socket");
    let listener = Listener::unix(&path)?;
    let call = Call::new(["unix"]).and(&path);
    // Sockets of its own are not what a policy without network promises; its loopback is.
    let permitted = Call::new(["tcp-loopback"]);
    reach(stage, &listener, call, permitted).await
}
