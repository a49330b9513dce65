//! The roots and working folders of other processes.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::proc_roots",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "reads a file of the host below /proc/PID/root and /proc/PID/cwd of every visible process",
    setting: plain,
    permitting: None,
    denials: signs::UNREADABLE,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let canary = stage.canary(0o644)?;
    let through = |path: &str| Call::new(["read-through-proc", path]);
    let call = through(&canary.path().to_string_lossy()).expect(canary.fingerprint());
    stage.host_control(&call).await?;
    stage.allow_control(&Call::new(["read", ITSELF])).await;
    stage.attack(&call).await;
    stage.oracle(canary.oracle());
    Ok(())
}
