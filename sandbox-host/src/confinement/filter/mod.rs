//! The system call filter of an execution.
//!
//! A deny list over an allowing default: a sandbox runs any language's programs, and what remains allowed is what a kernel
//! grants every unprivileged user. The filter takes away what such a user has no business with or what has been the way out
//! of other sandboxes. Requests to files (`ioctl`) and attributes of processes (`prctl`) are the other way round: what programs need
//! is listed, and the rest refused. Two errors are used by default:
//!
//! - `EPERM`, which a hardened kernel gives for the same call, so that programs report a lack of permission.
//! - `ENOSYS` where programs have a way to do without and take it when the kernel lacks the call: `clone3` (C libraries then
//!   use `clone`, whose flags a filter can see), io_uring (runtimes then use epoll or threads; kernels before 5.1 and
//!   configurations without it answer the same), `openat2`, `memfd_secret`, `pidfd_send_signal`, System V objects.

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

/// The filter of every execution of a plan.
#[must_use]
pub fn filter(plan: &Plan, kernel: &Kernel, mode: Mode, profile: &Profile) -> Filter {
    // Earlier rules win. Where two lists name one call, both only refuse.
    let mut rules = everywhere();
    // Where the agent's gate is asked about other programs, it refuses other processes too: it can count them, and would not be
    // asked about what a filter refuses.
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

/// The filter of a whole container, the agent included, for an engine to apply: it holds what an execution's own filter holds of every
/// plan, so that it stands behind that one, and what engines deny by default. Whatever the agent needs is left (identities, signals
/// to anybody, limits, filters with a listener).
#[must_use]
pub fn container_filter(arch: Arch) -> Filter {
    let mut rules = everywhere();
    rules.extend(processes::rules(false));
    rules.extend(sockets::namespaced(true));
    Filter::new(arch, rules)
}

/// What no plan and no place needs.
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
