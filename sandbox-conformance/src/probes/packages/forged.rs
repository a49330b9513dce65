//! A package that code forges where the installed ones were.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "packages::forged",
    version: 1,
    subject: Subject::Capability(Capability::Packages),
    kind: Kind::Behavior,
    summary: "renames the folder around the installed packages and forges one, which another sandbox imports",
    setting: super::with_package,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(super::poison::forged(stage, false)),
};
