//! A unix socket of the host that lies in a read root: a read-only mount does not keep anybody from connecting.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "network::unix_path_read_root",
    version: 1,
    subject: Subject::Capability(Capability::NetworkAccess),
    kind: Kind::Isolation,
    summary: "connects to a unix socket of the host in a read root",
    setting: reading,
    permitting: None,
    denials: signs::NO_SUCH_PEER,
    run: |stage| Box::pin(run(stage)),
};

/// The read root alone: what lies in a write root is another question.
fn reading(grounds: &Grounds) -> Setting {
    let root = grounds.read_root();
    Setting::with(|policy| policy.filesystem_read_roots = Some(vec![root]))
}

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let path = stage.read_folder()?.join("socket");
    let listener = Listener::unix(&path)?;
    let call = Call::new(["unix"]).and(&path);
    // Sockets of its own are not what a policy without network promises; its loopback is.
    let permitted = Call::new(["tcp-loopback"]);
    reach(stage, &listener, call, permitted).await
}
