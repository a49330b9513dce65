//! A unix socket of the host by its path, as an engine's socket has one.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "network::unix_path_outside",
    version: 1,
    subject: Subject::Capability(Capability::NetworkAccess),
    kind: Kind::Isolation,
    summary: "connects to a unix socket of the host outside of the read roots",
    setting: plain,
    permitting: None,
    denials: signs::NO_SUCH_PEER,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let path = stage.outside()?.join("socket");
    let listener = Listener::unix(&path)?;
    let call = Call::new(["unix"]).and(&path);
    let permitted = Call::new(["unix-own", &stage.inside("socket")]);
    reach(stage, &listener, call, permitted).await
}
