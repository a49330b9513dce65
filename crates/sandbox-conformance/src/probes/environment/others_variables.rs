//! The variables of other processes.

use crate::grounds::SECRET_VARIABLE;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "environment::others_variables",
    version: 1,
    subject: Subject::Capability(Capability::EnvVarAccess),
    kind: Kind::Isolation,
    summary: "looks for a secret of the host in /proc/*/environ",
    setting: named,
    permitting: None,
    denials: signs::ABSENT,
    run: |stage| Box::pin(run(stage)),
};

/// A sandbox with one variable of its own.
fn named(_: &Grounds) -> Setting {
    let mut setting = Setting::default();
    setting.env.insert("PROBE_VISIBLE".into(), "yes".into());
    setting
}

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let secret = stage.grounds().secret().to_owned();
    if secret.is_empty() {
        return Err(Trouble::new(format!(
            "{SECRET_VARIABLE} is not set in the suite's own environment"
        )));
    }
    let control = Call::new(["variables-of-others", "PROBE_VISIBLE=yes"]);
    same_call(stage, control, Call::new(["variables-of-others", &secret])).await
}
