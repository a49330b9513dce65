//! A read root that another sandbox renames.

use crate::probes::prelude::*;
use crate::probes::{swap, uses};

/// The probe.
pub const PROBE: Probe = Probe {
    id: "two_sandboxes::read_root",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "exchanges the folder around a read root and a link while another sandbox is created with it",
    setting: plain,
    permitting: None,
    denials: swap::STOPPED,
    run: |stage| Box::pin(swap::meanwhile(stage, uses::inner(uses::READ_ROOT))),
};
