//! A destination on the network, where there is none.

use sandbox_core::DenialKind;

use super::{TOLD, denied, says_ok};
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "denials::network",
    version: 2,
    subject: Subject::Feature(Feature::Denials),
    kind: Kind::Behavior,
    summary: "connects to the host where there is no network, and wants to be told",
    setting: plain,
    permitting: None,
    denials: TOLD,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let listener = Listener::tcp4().await?;
    // Last an address that nobody has, for a host that is on no network itself.
    let call = listener.call("tcp", stage.token()).and("192.0.2.1/9");
    stage.host_control(&call).await?;
    stage.allow_control(&Call::new(["tcp-loopback"])).await;
    let rule = "network_access = none";
    denied(stage, &call, DenialKind::Network, rule, says_ok).await;
    Ok(())
}
