//! Keyrings, which no namespace separates.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::keyring",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "adds a key to its own keyring",
    setting: plain,
    permitting: None,
    denials: signs::FORBIDDEN,
    run: |stage| Box::pin(kernel_call(stage, Call::new(["keyring"]))),
};
