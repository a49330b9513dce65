//! A program that is not there.

use sandbox_core::{ErrorKind, ExecRequest};

use super::Missing;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "exec::missing_program",
    version: 1,
    subject: Subject::Feature(Feature::Exec),
    kind: Kind::Behavior,
    summary: "executes a program that does not exist, and wants a typed error",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(MISSING.run(stage)),
};

static MISSING: Missing = Missing {
    what: "the host has no such program",
    action: "execute what is not there",
    request: |missing, _| ExecRequest::new(missing),
    told: ErrorKind::ProgramNotFound,
};
