//! Mode, times, owner and attributes of a file in a read root, which need no opening for writing.

use crate::canary::Canary;
use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::attributes",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemWriteRoots),
    kind: Kind::Isolation,
    summary: "changes mode, times, owner and extended attributes of a file in a read root",
    setting: rooted,
    permitting: None,
    denials: ATTRIBUTES,
    run: |stage| Box::pin(run(stage)),
};

const ATTRIBUTES: &[Denial] = &[
    Denial {
        sign: "EROFS",
        means: "read-only mount",
    },
    Denial {
        sign: "EPERM",
        means: "file of another user",
    },
    Denial {
        sign: "EACCES",
        means: "permissions",
    },
    Denial {
        sign: "ENOENT",
        means: "the sandbox's file system does not hold it",
    },
    Denial {
        sign: "EINVAL",
        means: "user that the namespace does not know",
    },
    Denial {
        sign: "EOPNOTSUPP",
        means: "file system without such attributes",
    },
];

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let folder = stage.read_folder()?;
    let target = Canary::plant(&folder.join("target"), 0o666)?;
    let canary = Canary::plant(&folder.join("canary"), 0o666)?;
    let own = stage.inside("file");
    stage
        .host_control(&Call::new(["attributes"]).and(target.path()))
        .await?;
    stage
        .allow_control(&Call::new(["own-attributes", &own]))
        .await;
    stage
        .attack(&Call::new(["attributes"]).and(canary.path()))
        .await;
    stage.oracle(canary.oracle());
    Ok(())
}
