//! The host's half of the confinement: compiles a plan into what the agent applies to each program
//! right before it starts.
//!
//! [`confinement`] is pure. A backend describes the sandbox's [`Kernel`], the [`Mode`] in which
//! code runs beside the agent, and the [`Profile`] of the environment. It sends the result to the
//! agent, and reports what that enforces with [`privileges`] and [`by_agent`].

mod enforcement;
mod filter;
mod kernel;
mod landlock;
mod limits;
mod paths;
mod platform;
mod profile;
#[cfg(test)]
mod tests;

pub use enforcement::{by_agent, disturbance, privileges, subprocess_execution};
pub use filter::{container_filter, filter};
pub use kernel::{Kernel, Mode};
pub use landlock::{FILE_RIGHTS, handled_fs, handled_net, landlock, scoped};
pub use limits::{NO_CORE_FILE, limits};
pub use paths::{Paths, export_folders};
pub use platform::{PLATFORM_ETC, PLATFORM_READ_ROOTS};
pub use profile::{Isolation, Profile};

use sandbox_agent::protocol::Confinement;
use sandbox_core::Plan;

/// `022`: files that code creates are readable by all users and writable by its own.
const UMASK: u32 = 0o022;

/// The confinement of all executions of a plan.
///
/// Leaves out mechanisms that the kernel lacks; [`privileges`] and [`subprocess_execution`] report
/// what is then not enforced.
#[must_use]
pub fn confinement(plan: &Plan, kernel: &Kernel, mode: Mode, profile: &Profile) -> Confinement {
    let seccomp = if kernel.seccomp {
        let filter = filter(plan, kernel, mode, profile);
        filter
            .compile()
            .expect("the rules are fixed; a test compiles them in every combination")
    } else {
        Vec::new()
    };
    Confinement {
        identity: match mode {
            Mode::Split { uid, gid } => Some((uid, gid)),
            Mode::Shared => None,
        },
        limits: limits(plan, profile),
        landlock: landlock(plan, kernel, profile),
        seccomp,
        exec_once: !plan.subprocess && kernel.seccomp && kernel.seccomp_notify,
        umask: UMASK,
    }
}
