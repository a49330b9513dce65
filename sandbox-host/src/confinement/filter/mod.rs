//! The rules of an execution's system call filter.
//!
//! The filter denies a list of calls and allows the rest: a sandbox runs programs in any language,
//! and the remaining calls are open to all unprivileged users of a kernel. Denied are calls that
//! such a user does not need, or that other sandboxes were escaped with. For file requests
//! (`ioctl`) and process attributes (`prctl`) it is the opposite: only those that programs need are
//! allowed. There are two default errors:
//!
//! - `EPERM`, as a hardened kernel returns for the same call, so that programs report missing
//!   permission.
//! - `ENOSYS` if programs have a fallback for kernels without the call. `clone3`: C libraries fall
//!   back to `clone`, whose flags a filter can see. io_uring: runtimes fall back to epoll or
//!   threads, as on kernels before 5.1 or without it. Also `openat2`, `memfd_secret`,
//!   `pidfd_send_signal` and System V objects.

mod agent;
mod attributes;
mod files;
mod memory;
mod peers;
mod placement;
mod processes;
mod requests;
mod shared_objects;
mod sockets;
mod surface;
mod sysv;

use sandbox_core::Plan;

use super::{Isolation, Kernel, Mode, Profile};
use crate::seccomp::{Arch, Filter, Rule};

/// The filter of all executions of a plan.
#[must_use]
pub fn filter(plan: &Plan, kernel: &Kernel, mode: Mode, profile: &Profile) -> Filter {
    // Earlier rules win. If two lists name one call, both only refuse.
    let mut rules = everywhere();
    // If the agent's notification handler decides on execve, it refuses forks, too: it can count
    // them, and would not be notified of calls that the filter refuses.
    let single = !plan.subprocess && !kernel.seccomp_notify;
    rules.extend(processes::rules(single));
    rules.extend(peers::rules());
    rules.extend(sockets::rules(plan, kernel, profile.isolation));
    rules.extend(shared_objects::rules());
    if profile.isolation == Isolation::Host {
        rules.extend(sysv::rules());
    }
    if mode == Mode::Shared {
        rules.extend(agent::rules(profile.agent));
    }
    Filter::new(kernel.arch, rules)
}

/// The filter of a whole container including the agent, applied by an engine. Contains all refusals
/// that executions have with every plan, as a second layer, and the default refusals of engines.
/// Leaves what the agent needs: identities, signals to all processes, limits, filters with a
/// listener.
#[must_use]
pub fn container_filter(arch: Arch) -> Filter {
    let mut rules = everywhere();
    rules.extend(processes::rules(false));
    rules.extend(sockets::namespaced(true));
    Filter::new(arch, rules)
}

/// Rules for all plans and environments.
fn everywhere() -> Vec<Rule> {
    let lists = [
        surface::rules(),
        attributes::rules(),
        files::rules(),
        memory::rules(),
        placement::rules(),
        requests::rules(),
    ];
    lists.into_iter().flatten().collect()
}
