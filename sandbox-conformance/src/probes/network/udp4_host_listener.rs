//! UDP to the host.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "network::udp4_host_listener",
    version: 2,
    subject: Subject::Capability(Capability::NetworkAccess),
    kind: Kind::Isolation,
    summary: "sends a datagram to a listener of the host and waits for the answer",
    setting: plain,
    permitting: None,
    denials: signs::UNREACHABLE,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let listener = Listener::udp4().await?;
    let call = listener.call("udp", stage.token());
    let permitted = Call::new(["udp-loopback"]);
    reach_address(stage, &listener, call, permitted).await
}
