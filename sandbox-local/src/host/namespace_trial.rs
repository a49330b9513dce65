//! Tests whether new namespaces work: a child creates them and mounts something, since a user
//! namespace may exist without granting any power.
#![expect(unsafe_code, reason = "a child in shared memory")]

use std::ffi::{CStr, c_void};

use sandbox_agent::runtime::mount::{MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_REC, MS_SLAVE, mount};
use sandbox_agent::runtime::namespace::{CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, unshare};
use sandbox_agent::runtime::process::{exit, wait_for};
use sandbox_agent::runtime::{Errno, Pid};

use super::{Availability, User};
use crate::spawn::clone::{self, ChildFailure};
use crate::spawn::identity::IdentityMaps;

/// The result of the test.
pub(super) struct NamespaceTrial {
    pub(super) namespaces: Availability,
    pub(super) proc_mount: Availability,
    /// The child. It exits by itself and must still be reaped: ending its namespaces takes a while.
    pub(super) child: Option<Pid>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum TrialStep {
    #[default]
    None,
    Identity,
    Propagation,
    Tmpfs,
    UserNamespace,
}

struct Attempt {
    maps: Option<IdentityMaps>,
    failure: ChildFailure<TrialStep>,
    proc_errno: i32,
}

/// Creates namespaces as a sandbox would, with a tmpfs and a procfs in them.
pub(super) fn run(user: &User) -> NamespaceTrial {
    let mut attempt = Attempt {
        maps: (!user.can_map_ids).then(|| IdentityMaps::of_caller(user.id, user.group)),
        failure: ChildFailure::default(),
        proc_errno: 0,
    };
    let mut namespaces = CLONE_NEWNS | CLONE_NEWPID;
    if !user.can_map_ids {
        namespaces |= CLONE_NEWUSER;
    }
    let argument = (&raw mut attempt).cast();
    let child = clone::Stack::new().and_then(|stack| {
        // SAFETY: `body` makes system calls and writes to its argument, which lives until it has
        // ended.
        unsafe { clone::run(namespaces, None, &stack, body, argument) }
    });
    let child = match child {
        // The child shared our memory until it exited, so it has finished.
        Ok(child) => child.pid,
        Err(errno) => return NamespaceTrial::missing(format!("clone: {errno}"), fix(errno), None),
    };
    let child = Some(child);
    let ChildFailure { step, errno } = attempt.failure;
    let errno = Errno(errno);
    let failed = match step {
        TrialStep::None => {
            let proc_mount = match attempt.proc_errno {
                0 => Availability::Present,
                errno => Availability::Missing {
                    reason: format!("mount of procfs in a new namespace: {}", Errno(errno)),
                    fix: "in a container: run it with an unmasked /proc (--security-opt systempaths=unconfined)"
                        .into(),
                },
            };
            return NamespaceTrial {
                namespaces: Availability::Present,
                proc_mount,
                child,
            };
        }
        TrialStep::Identity => "write its id maps",
        TrialStep::Propagation => "change mounts in it",
        TrialStep::Tmpfs => "mount a tmpfs in it",
        TrialStep::UserNamespace => "enter a user namespace",
    };
    NamespaceTrial::missing(
        format!("namespaces exist but are powerless: {failed}: {errno}"),
        fix(errno),
        child,
    )
}

impl NamespaceTrial {
    /// Reaps the child.
    pub(super) fn reap(child: Pid) {
        // Another thread may have reaped it; the child is gone either way.
        let _ = wait_for(child);
    }

    fn missing(reason: String, fix: String, child: Option<Pid>) -> Self {
        let namespaces = Availability::Missing {
            reason: reason.clone(),
            fix,
        };
        let proc_mount = Availability::Missing {
            reason,
            fix: String::new(),
        };
        Self {
            namespaces,
            proc_mount,
            child,
        }
    }
}

fn fix(errno: Errno) -> String {
    let setting = |path: &str| std::fs::read_to_string(path).is_ok_and(|value| value.trim() == "1");
    if setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") {
        return "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0".into();
    }
    let off = |path: &str| std::fs::read_to_string(path).is_ok_and(|value| value.trim() == "0");
    if off("/proc/sys/kernel/unprivileged_userns_clone") {
        return "sudo sysctl kernel.unprivileged_userns_clone=1".into();
    }
    if off("/proc/sys/user/max_user_namespaces") || errno == Errno::ENOSPC {
        return "sudo sysctl user.max_user_namespaces=65536".into();
    }
    "in a container: allow clone and mount (--security-opt seccomp=unconfined --cap-add SYS_ADMIN)"
        .into()
}

unsafe extern "C" fn body(argument: *mut c_void) -> ! {
    // SAFETY: the parent waits and reads this only after we have ended.
    let attempt = unsafe { &mut *argument.cast::<Attempt>() };
    let Attempt {
        maps,
        failure,
        proc_errno,
    } = attempt;
    let mut step = |step, outcome: Result<(), Errno>| {
        if let Err(errno) = outcome {
            failure.end(step, errno);
        }
    };
    if let Some(maps) = maps {
        step(TrialStep::Identity, maps.write_own());
    }
    step(
        TrialStep::Propagation,
        mount(None, c"/", None, MS_REC | MS_SLAVE, None),
    );
    const PROC: &CStr = c"/proc";
    let flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    if let Err(errno) = mount(Some(c"proc"), PROC, Some(c"proc"), flags, None) {
        *proc_errno = errno.0;
    }
    step(
        TrialStep::Tmpfs,
        mount(Some(c"tmpfs"), PROC, Some(c"tmpfs"), flags, None),
    );
    if maps.is_none() {
        step(TrialStep::UserNamespace, unshare(CLONE_NEWUSER));
    }
    exit(0)
}
