//! The limit of open files.

use crate::probes::prelude::*;

/// The probes of this area.
pub static PROBES: &[Probe] = &[Probe::isolation(
    "open_files::many",
    OPEN_FILES,
    "holds 200 files open with a limit of 64",
    signs::DESCRIPTORS,
    |context| {
        limit(
            context,
            Call::new(["open-many", "32"]),
            Call::new(["open-many", "200"]),
        )
    },
)
.setup(|_| SandboxSetup::with(|policy| policy.open_files = Some(64)))];
