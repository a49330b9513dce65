//! A path out of which artifacts come, and that code of an earlier run has replaced.

use crate::probes::prelude::*;
use crate::probes::{swap, uses};

/// The probe.
pub const PROBE: Probe = Probe {
    id: "second_run::export_path",
    version: 1,
    subject: Subject::Capability(Capability::ArtifactExportPaths),
    kind: Kind::Isolation,
    summary: "replaces a folder that an export path names by a link, and has its files exported by a second run of the same policy",
    setting: plain,
    permitting: None,
    denials: NOT_FOLLOWED,
    run: |stage| Box::pin(swap::in_a_first_run(stage, uses::EXPORT_PATH)),
};

const NOT_FOLLOWED: &[Denial] = &[
    Denial {
        sign: "other_content",
        means: "the link leads nowhere inside, or is not followed",
    },
    Denial {
        sign: "folder_refused",
        means: "a typed error: what the export path names is no folder",
    },
];
