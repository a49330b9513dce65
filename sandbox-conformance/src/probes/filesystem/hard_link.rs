//! A hard link out of the write root, which is on the same file system.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::hard_link",
    version: 2,
    subject: Subject::Capability(Capability::FilesystemReadRoots),
    kind: Kind::Isolation,
    summary: "reads a file of the host through a hard link in the write root",
    setting: rooted_if_taken,
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
    let call = |link: &std::path::Path| {
        let call = Call::new(["read-through-hard-link"]);
        let call = call.and(canary.path()).and(link);
        call.expect(canary.fingerprint())
    };
    let link = stage.grounds().write_root().join(stage.token());
    stage.host_control(&call(&link)).await?;
    let link = stage.writable("link").await;
    stage
        .allow_control(&Call::new(["create"]).and(link.with_extension("new")))
        .await;
    stage.attack(&call(&link)).await;
    stage.oracle(canary.oracle());
    Ok(())
}
