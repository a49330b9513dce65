//! A program with the set-user-ID bit of another user.

use std::os::unix::fs::PermissionsExt;

use crate::probes::prelude::*;

pub(super) const UNCHANGED: &[ExpectedDenial] = &[
    denied("unchanged", "no_new_privs, or nosuid mount"),
    denied("EPERM", "seccomp"),
    denied("EACCES", "Landlock"),
];

/// A user id without a user on the host. The effect of the bit does not depend on the id.
const OTHER: u32 = 54_321;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let folder = context.read_folder()?;
    let (marked, plain) = (folder.join("marked"), folder.join("plain"));
    for path in [&marked, &plain] {
        crate::program::install(path)?;
    }
    // Changing the owner clears the bit, so it is set afterwards.
    std::os::unix::fs::chown(&marked, Some(OTHER), Some(OTHER))?;
    std::fs::set_permissions(&marked, std::fs::Permissions::from_mode(0o4755))?;
    let call = |path: &std::path::Path, what| Call::new(["execute"]).and(path).and(what);
    context.host_control(&call(&marked, "changed-user")).await?;
    context.allow_control(&call(&plain, "alive")).await;
    context.attack(&call(&marked, "changed-user")).await;
    context.no_host_effect("the program only reports its user");
    Ok(())
}
