//! A working folder that is not there.

use sandbox_core::{ErrorKind, ExecRequest};

use super::Missing;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "exec::missing_workdir",
    version: 1,
    subject: Subject::Feature(Feature::Exec),
    kind: Kind::Behavior,
    summary: "executes in a folder that does not exist, and wants a typed error",
    setting: plain,
    permitting: None,
    denials: signs::AS_DOCUMENTED,
    run: |stage| Box::pin(MISSING.run(stage)),
};

static MISSING: Missing = Missing {
    what: "the host has no such folder",
    action: "execute in what is not there",
    request: |missing, program| ExecRequest::new(program).arg("alive").workdir(missing),
    told: ErrorKind::BadWorkdir,
};
