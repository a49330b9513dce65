//! A package that code forges before one is installed.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "packages::forged_before",
    version: 1,
    subject: Subject::Capability(Capability::Packages),
    kind: Kind::Behavior,
    summary: "forges a package before there is any cache of packages, which another sandbox imports",
    setting: super::with_package,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(super::poison::forged(stage, true)),
};
