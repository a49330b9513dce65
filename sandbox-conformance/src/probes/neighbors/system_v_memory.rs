//! System V shared memory of another sandbox.

use crate::grounds::random_name;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "neighbors::system_v_memory",
    version: 1,
    subject: Subject::Capability(Capability::Processes),
    kind: Kind::Isolation,
    summary: "looks for System V shared memory that another sandbox made under a known key",
    setting: plain,
    permitting: None,
    denials: super::UNSHARED,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    // Keys are signed numbers of 32 bits; 0 is no key.
    let key = || {
        let random = u32::from_str_radix(&random_name()[..8], 16).map(|key| key >> 1 | 1);
        random.map(|key| key.to_string())
    };
    let (control, attack) = (key()?, key()?);
    super::shared(stage, "memory", &control, &attack).await
}
