//! More storage in one file than the limit.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "disk::one_file",
    version: 1,
    subject: Subject::Capability(Capability::Disk),
    kind: Kind::Isolation,
    summary: "writes 48 MiB into one file in /tmp with a limit of 16 MiB",
    setting: |_| Setting::with(|policy| policy.disk = Some(ByteSize::mib(16))),
    permitting: None,
    denials: signs::STORAGE,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let path = stage.inside("file");
    let fill = |size| Call::new(["fill", &path, size]);
    limit(stage, fill("4"), fill("48")).await
}
