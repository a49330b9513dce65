//! The credentials that a cluster puts into its pods.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::cluster_token",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "reads a file of the host, or the token of a service account where a cluster puts it",
    setting: plain,
    permitting: None,
    denials: signs::UNREADABLE,
    run: |stage| Box::pin(run(stage)),
};

/// Where it is, by both names of the folder.
const TOKENS: [&str; 2] = [
    "/var/run/secrets/kubernetes.io/serviceaccount/token",
    "/run/secrets/kubernetes.io/serviceaccount/token",
];

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    // A host has no token, and reads its own file.
    let canary = stage.canary(0o644)?;
    let call = Call::new(["read-any"]).and(canary.path());
    let call = TOKENS.iter().fold(call, |call, path| call.and(path));
    stage.host_control(&call).await?;
    stage.allow_control(&Call::new(["read-any", ITSELF])).await;
    stage.attack(&call).await;
    stage.oracle(canary.oracle());
    Ok(())
}
