//! A hard link out of the write root, which is on the same file system.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::hard_link",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "reads a file of the host through a hard link in the write root",
    setting: rooted,
    permitting: None,
    denials: LINKS,
    run: |stage| Box::pin(run(stage)),
};

const LINKS: &[Denial] = &[
    Denial {
        sign: "ENOENT",
        means: "the sandbox's file system does not hold it",
    },
    Denial {
        sign: "EXDEV",
        means: "another mount, or Landlock",
    },
    Denial {
        sign: "EACCES",
        means: "Landlock, or permissions",
    },
    Denial {
        sign: "EPERM",
        means: "file of another user",
    },
];

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let canary = stage.canary(0o644)?;
    let link = stage.grounds().write_root().join(stage.token());
    let call = Call::new(["read-through-hard-link"])
        .and(canary.path())
        .and(&link);
    let call = call.expect(canary.fingerprint());
    stage.host_control(&call).await?;
    stage
        .allow_control(&Call::new(["create"]).and(link.with_extension("new")))
        .await;
    stage.attack(&call).await;
    stage.oracle(canary.oracle());
    Ok(())
}
