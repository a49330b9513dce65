//! A variable of the process that makes sandboxes.

use crate::grounds::SECRET_VARIABLE;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "environment::host_variable",
    version: 1,
    subject: Subject::Capability(Capability::EnvVarAccess),
    kind: Kind::Isolation,
    summary: "reads a secret variable of the host",
    setting: super::named,
    permitting: None,
    denials: signs::ABSENT,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let secret = super::secret(stage)?;
    let call = Call::new(["variable", SECRET_VARIABLE]).expect(secret);
    let control = Call::new(["variable", "PROBE_VISIBLE"]).expect("yes");
    same_call(stage, control, call).await
}
