//! The documented answers to calls that no policy grants, and to those that programs use instead.

use crate::probes::prelude::*;

/// What the probe program calls each, and the answer. A request of a file that is let through finds
/// no file.
const DOCUMENTED: &[(&str, &str)] = &[
    ("fchmod set-group-id", "EPERM"),
    ("fchmodat set-group-id", "EPERM"),
    ("folder set-group-id", "EPERM"),
    ("new file set-group-id", "EPERM"),
    ("fchmod set-user-id", "EPERM"),
    ("fchmodat set-user-id", "EPERM"),
    ("folder set-user-id", "EPERM"),
    ("new file set-user-id", "EPERM"),
    ("chmod", "ok"),
    ("TIOCSTI", "EPERM"),
    ("TIOCSETD", "EPERM"),
    ("FS_IOC_SETFLAGS", "ENOTTY"),
    ("FS_IOC_FSSETXATTR", "ENOTTY"),
    ("BTRFS_IOC_SNAP_CREATE_V2", "ENOTTY"),
    ("FS_IOC_ADD_ENCRYPTION_KEY", "ENOTTY"),
    ("FS_IOC_ENABLE_VERITY", "ENOTTY"),
    ("FS_IOC_GETFLAGS", "EBADF"),
    ("FS_IOC_FIEMAP", "EBADF"),
    ("FICLONE", "EBADF"),
    ("TCGETS", "EBADF"),
    ("FIONREAD", "EBADF"),
    ("SIOCGIFCONF", "EBADF"),
    ("lease", "EPERM"),
    ("notify", "EPERM"),
    ("inotify", "ok"),
    ("huge pages", "EPERM"),
    ("ordinary pages", "ok"),
    ("huge file", "EPERM"),
    ("ordinary file", "ok"),
    ("huge segment", "EPERM"),
    ("policy of nodes", "EPERM"),
    ("priority by number", "EPERM"),
    ("class by number", "EPERM"),
    ("default class by number", "ok"),
    ("prctl beyond the list", "EPERM"),
    ("prctl of the list", "ok"),
    ("clone3", "ENOSYS"),
    ("openat2", "ENOSYS"),
    ("io_uring", "ENOSYS"),
];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let make = |folder: &std::path::Path| Call::new(["answers"]).and(folder);
    let control = context.outside()?.join(context.token());
    context.host_control(&make(&control)).await?;
    let folder = context.inside("answers");
    feature(context, "make each call", async |sandbox| {
        let run = sandbox.run(&make(folder.as_ref())).await?;
        Ok(match run.attempt(None) {
            Attempt::Succeeded { value } => difference(&value),
            other => Some(format!("{other:?}")),
        })
    })
    .await;
    context.no_host_effect("the calls are about the program itself");
    Ok(())
}

/// The first answer that is not the documented one.
fn difference(answers: &str) -> Option<String> {
    let mut answers = answers.split(',');
    for (name, documented) in DOCUMENTED {
        let answer = answers.next().unwrap_or_default();
        if answer != format!("{name}={documented}") {
            return Some(format!("{answer}, and not {documented}"));
        }
    }
    answers.next().map(str::to_owned)
}
