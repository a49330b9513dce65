//! Flags of a file, which the host inherits.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::file_flags",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemWriteRoots),
    kind: Kind::Isolation,
    summary: "sets a flag of a file in a write root",
    setting: rooted,
    permitting: None,
    denials: UNFLAGGED,
    run: |stage| Box::pin(run(stage)),
};

const UNFLAGGED: &[Denial] = &[
    Denial {
        sign: "ENOTTY",
        means: "seccomp, or a file system without flags",
    },
    Denial {
        sign: "EPERM",
        means: "seccomp",
    },
    Denial {
        sign: "ENOSYS",
        means: "seccomp",
    },
];

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let folder = stage.write_folder()?;
    let [control, own, file] =
        ["control", "own", "file"].map(|name| folder.join(format!("{}-{name}", stage.token())));
    let set = |path: &std::path::Path| Call::new(["set-flag"]).and(path);
    stage.host_control(&set(&control)).await?;
    stage
        .allow_control(&Call::new(["make"]).and(&own).and("0").and("10"))
        .await;
    stage.attack(&set(&file)).await;
    let program = stage.grounds().program();
    let seen = host::run(&program, &Call::new(["has-flag"]).and(&file)).await?;
    stage.watched(
        "the file's flags on the host",
        !seen.attempt(None).is_success(),
    );
    Ok(())
}
