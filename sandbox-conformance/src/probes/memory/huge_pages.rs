//! Huge pages, which no memory limit counts.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "memory::huge_pages",
    version: 1,
    // What refuses them is no memory limit, and is there without one.
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "asks for huge pages by mapping, file in memory and segment",
    setting: plain,
    permitting: None,
    denials: signs::FORBIDDEN,
    run: |stage| Box::pin(kernel_call(stage, Call::new(["huge-pages"]))),
};
