//! Storage in /dev/shm, which is a file system of its own.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "disk::shared_memory",
    version: 1,
    subject: Subject::Capability(Capability::Disk),
    kind: Kind::Isolation,
    summary: "writes 48 MiB into /dev/shm with a limit of 16 MiB",
    setting: |_| Setting::with(|policy| policy.disk = Some(ByteSize::mib(16))),
    permitting: None,
    denials: SHARED,
    run: |stage| Box::pin(run(stage)),
};

const SHARED: &[Denial] = &[
    Denial {
        sign: "ENOSPC",
        means: "size of the sandbox's file system",
    },
    Denial {
        sign: "EDQUOT",
        means: "quota",
    },
    Denial {
        sign: "EFBIG",
        means: "limit of the file's size",
    },
    Denial {
        sign: "ENOENT",
        means: "there is no /dev/shm",
    },
    Denial {
        sign: "EACCES",
        means: "Landlock, or permissions",
    },
    Denial {
        sign: "EROFS",
        means: "read-only mount",
    },
];

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let shared = format!("/dev/shm/{}", stage.token());
    limit(
        stage,
        Call::new(["fill", &stage.inside("file"), "4"]),
        Call::new(["fill", &shared, "48"]),
    )
    .await
}
