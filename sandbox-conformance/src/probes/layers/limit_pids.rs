//! The limit of a user's processes by `setrlimit`, which may stand before one by control groups.

use super::group::BOUNDED;
use super::{missing, told};
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "layers::limit_pids",
    version: 1,
    subject: Subject::Capability(Capability::Pids),
    kind: Kind::Isolation,
    summary: "asks for the limit of a user's processes where the report names RLIMIT_NPROC",
    setting: |_| Setting::with(|policy| policy.pids = Some(32)),
    permitting: None,
    denials: &told(BOUNDED),
    run: |stage| Box::pin(run(stage)),
};

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    const RLIMIT_NPROC: &str = "6";
    let call = Call::new(["resource-limit", RLIMIT_NPROC, "32"]);
    missing(stage, super::LIMIT_PIDS, call).await
}
