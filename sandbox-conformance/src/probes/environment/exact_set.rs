//! Variables that nobody named.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "environment::exact_set",
    version: 1,
    subject: Subject::Capability(Capability::EnvVarAccess),
    kind: Kind::Isolation,
    summary: "looks for variables besides PATH, HOME and what the specification names",
    setting: named,
    permitting: None,
    denials: signs::ABSENT,
    run: |stage| {
        let call = Call::new(["variables", "PATH", "HOME", "PROBE_VISIBLE"]);
        Box::pin(same_call(stage, Call::new(["variable", "PATH"]), call))
    },
};

/// A sandbox with one variable of its own.
fn named(_: &Grounds) -> Setting {
    let mut setting = Setting::default();
    setting.env.insert("PROBE_VISIBLE".into(), "yes".into());
    setting
}
