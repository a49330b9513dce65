//! The limit of open files.

use crate::probes::measured::{MeasuredLimit, WITHIN, measure};
use crate::probes::prelude::*;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::isolation(
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
    .version(2)
    .setup(|_| SandboxSetup::with(|policy| policy.open_files = Some(64))),
    Probe::isolation(
        "open_files::measured",
        OPEN_FILES,
        "raises its limit as far as it can, and counts its descriptors with limits of 32, 100 and 400",
        WITHIN,
        |context| Box::pin(measure(context, &OPEN_FILES_LIMIT)),
    )
    .version(2),
];

/// The kernel counts for each process.
const OPEN_FILES_LIMIT: MeasuredLimit = MeasuredLimit {
    values: &[32, 100, 400],
    set: |policy, value| policy.open_files = u32::try_from(value).ok(),
    call: |_, most| Call::new(["measure-open-files", &most.to_string()]),
    accepted: |value| (value, value),
};
