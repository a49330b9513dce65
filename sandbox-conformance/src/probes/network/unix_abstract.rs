//! A unix socket of the host by its abstract name, which only a network namespace or Landlock hides.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "network::unix_abstract",
    version: 1,
    subject: Subject::Capability(Capability::NetworkAccess),
    kind: Kind::Isolation,
    summary: "connects to an abstract unix socket of the host",
    setting: plain,
    permitting: None,
    denials: signs::NO_SUCH_PEER,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let listener = Listener::unix_abstract(stage.token())?;
    let call = Call::new(["unix-abstract", stage.token()]);
    let permitted = Call::new(["unix-own", &stage.inside("socket")]);
    reach(stage, &listener, call, permitted).await
}
