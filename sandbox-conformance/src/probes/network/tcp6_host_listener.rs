//! TCP to the host over IPv6.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "network::tcp6_host_listener",
    version: 2,
    subject: Subject::Capability(Capability::NetworkAccess),
    kind: Kind::Isolation,
    summary: "connects to a listener of the host over IPv6",
    setting: plain,
    permitting: None,
    denials: signs::UNREACHABLE,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let listener = Listener::tcp6().await?;
    let call = listener.call("tcp", stage.token());
    let permitted = Call::new(["tcp-loopback"]);
    reach_address(stage, &listener, call, permitted).await
}
