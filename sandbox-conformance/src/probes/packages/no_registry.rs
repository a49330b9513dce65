//! The network of an installation, in the hands of the code that comes after it.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "packages::no_registry",
    version: 2,
    subject: Subject::Capability(Capability::PackageInstallation),
    kind: Kind::Isolation,
    summary: "connects to a listener of the host from a sandbox for which packages were installed",
    setting: requiring,
    permitting: None,
    denials: signs::UNREACHABLE,
    run: |stage| Box::pin(run(stage)),
};

/// How far an installation is held in is required only where everything is: nobody writes it into a policy.
fn requiring(grounds: &Grounds) -> Setting {
    let mut setting = super::with_package(grounds);
    setting.policy.require_all = true;
    setting
}

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let _cache = crate::grounds::with_packages().await;
    let listener = Listener::tcp4().await?;
    let call = listener.call("tcp", stage.token());
    let permitted = Call::new(["tcp-loopback"]);
    reach_address(stage, &listener, call, permitted).await
}
