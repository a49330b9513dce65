//! A program that changes its user when it starts.

use std::os::unix::fs::PermissionsExt;

use crate::probes::prelude::*;

/// The probe.
pub const PROBE: Probe = Probe {
    id: "kernel::setuid_program",
    version: 1,
    subject: Subject::Capability(Capability::Privileges),
    kind: Kind::Isolation,
    summary: "executes a program with the set-user-ID bit of another user",
    setting: rooted,
    permitting: None,
    denials: UNCHANGED,
    run: |stage| Box::pin(run(stage)),
};

const UNCHANGED: &[Denial] = &[
    Denial {
        sign: "unchanged",
        means: "no_new_privs, or nosuid mount",
    },
    Denial {
        sign: "EPERM",
        means: "seccomp",
    },
    Denial {
        sign: "EACCES",
        means: "Landlock",
    },
];

/// A user that nobody on the host is; the bit's effect does not depend on who it is.
const OTHER: u32 = 54_321;

async fn run(stage: &mut Stage) -> Result<(), Trouble> {
    let folder = stage.read_folder()?;
    let (marked, plain) = (folder.join("marked"), folder.join("plain"));
    for path in [&marked, &plain] {
        crate::program::install(path)?;
    }
    // Changing the owner clears the bit, hence in this order.
    std::os::unix::fs::chown(&marked, Some(OTHER), Some(OTHER))?;
    std::fs::set_permissions(&marked, std::fs::Permissions::from_mode(0o4755))?;
    let call = |path: &std::path::Path, what| Call::new(["execute"]).and(path).and(what);
    stage.host_control(&call(&marked, "changed-user")).await?;
    stage.allow_control(&call(&plain, "alive")).await;
    stage.attack(&call(&marked, "changed-user")).await;
    stage.nothing_to_watch("the program only says who it is");
    Ok(())
}
