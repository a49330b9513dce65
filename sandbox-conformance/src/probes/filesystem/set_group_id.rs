//! Programs that run as the owner or the group of a folder of the host.

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "filesystem::set_group_id",
    version: 1,
    subject: Subject::Capability(Capability::FilesystemWriteRoots),
    kind: Kind::Isolation,
    summary: "leaves programs with set-group-id and set-user-id in a write root",
    setting: rooted,
    permitting: None,
    denials: UNMARKED,
    run: |stage| Box::pin(run(stage)),
};

const UNMARKED: &[Denial] = &[
    Denial {
        sign: "EPERM",
        means: "seccomp",
    },
    Denial {
        sign: "ENOSYS",
        means: "seccomp",
    },
    Denial {
        sign: "EACCES",
        means: "Landlock",
    },
    Denial {
        sign: "ENOENT",
        means: "the sandbox's file system does not hold the folder",
    },
    Denial {
        sign: "cleared",
        means: "the kernel has cleared the bits",
    },
];

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let (control, attacked) = (stage.outside()?, stage.write_folder()?);
    let mark = |folder: &std::path::Path| Call::new(["mark"]).and(folder);
    stage.host_control(&mark(&control)).await?;
    let own = attacked.join(format!("{}-own", stage.token()));
    stage
        .allow_control(&Call::new(["make"]).and(&own).and("0").and("10"))
        .await;
    stage.attack(&mark(&attacked)).await;
    let marked = std::fs::read_dir(&attacked)?
        .map(|entry| Ok(is_marked(&entry?.metadata()?)))
        .collect::<Result<Vec<_>, std::io::Error>>()?;
    stage.watched(
        "modes of files in the write root, on the host",
        !marked.contains(&true),
    );
    Ok(())
}

fn is_marked(file: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.is_file() && file.len() > 0 && file.permissions().mode() & 0o6000 != 0
}
