//! The variables of other processes.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "environment::others_variables",
    version: 1,
    subject: Subject::Capability(Capability::EnvVarAccess),
    kind: Kind::Isolation,
    summary: "looks for a secret of the host in /proc/*/environ",
    setting: super::named,
    permitting: None,
    denials: signs::ABSENT,
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let secret = super::secret(stage)?;
    let control = Call::new(["variables-of-others", "PROBE_VISIBLE=yes"]);
    same_call(stage, control, Call::new(["variables-of-others", &secret])).await
}
