//! A unix socket of the host by its abstract name, with the whole network granted.

use sandbox_core::policy::NetworkPolicy;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "network::unix_abstract_full",
    version: 1,
    // Without a demand on the network, the host's objects for communication between processes count.
    subject: Subject::Capability(Capability::Processes),
    kind: Kind::Isolation,
    summary: "connects to an abstract unix socket of the host with the whole network",
    setting: |_| Setting::with(|policy| policy.network = Some(NetworkPolicy::Full)),
    permitting: None,
    denials: signs::NO_SUCH_PEER,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    if let Err(Attempt::Unclear { detail }) = stage.with_sandbox(async |_| ()).await {
        // An engine without root cannot give a network on every host.
        stage.not_offered(format!("a sandbox with the whole network: {detail}"));
        return Ok(());
    }
    let listener = Listener::unix_abstract(stage.token())?;
    let call = Call::new(["unix-abstract", stage.token()]);
    reach(stage, &listener, call, Call::new(["tcp-loopback"])).await
}
