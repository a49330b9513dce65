//! The read-only mount of a read root.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::remount",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemWriteRoots),
    kind: Kind::Isolation,
    summary: "makes the mount of a read root writable again",
    setting: rooted,
    permitting: None,
    denials: REMOUNTS,
    run: |stage| Box::pin(run(stage)),
};

const REMOUNTS: &[Denial] = &[
    Denial {
        sign: "EPERM",
        means: "no capability, or seccomp",
    },
    Denial {
        sign: "EACCES",
        means: "no capability, or seccomp",
    },
    Denial {
        sign: "ENOSYS",
        means: "seccomp",
    },
    Denial {
        sign: "ENOENT",
        means: "the sandbox's file system does not hold it",
    },
];

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let root = stage.grounds().read_root();
    same_call(
        stage,
        Call::new(["alive"]),
        Call::new(["remount"]).and(root),
    )
    .await
}
