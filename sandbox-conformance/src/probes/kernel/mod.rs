//! The kernel's surface.

use crate::probe::{Denial, Probe};

mod bpf;
mod compat_calls;
mod control_groups;
mod core_pattern;
mod crash_helper;
mod file_handle;
mod file_requests;
mod host_devices;
mod host_name;
mod io_uring;
mod kernel_log;
mod key_names;
mod keyring;
mod leases;
mod limits_of_another;
mod memory_policy;
mod module;
mod mount;
mod new_mount_api;
mod perf;
mod pipe_size;
mod process_attributes;
mod realtime;
mod settings;
mod setuid_program;
mod sysrq;
mod terminal_input;
mod terminal_input_high_bits;
mod user_namespace;
mod userfaultfd;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    bpf::PROBE,
    compat_calls::PROBE,
    control_groups::PROBE,
    core_pattern::PROBE,
    crash_helper::PROBE,
    file_handle::PROBE,
    file_requests::PROBE,
    host_devices::PROBE,
    host_name::PROBE,
    io_uring::PROBE,
    kernel_log::PROBE,
    key_names::PROBE,
    keyring::PROBE,
    leases::PROBE,
    limits_of_another::PROBE,
    memory_policy::PROBE,
    module::PROBE,
    mount::PROBE,
    new_mount_api::PROBE,
    perf::PROBE,
    pipe_size::PROBE,
    process_attributes::PROBE,
    realtime::PROBE,
    settings::PROBE,
    setuid_program::PROBE,
    sysrq::PROBE,
    terminal_input::PROBE,
    terminal_input_high_bits::PROBE,
    user_namespace::PROBE,
    userfaultfd::PROBE,
];

/// How a user namespace may be denied to code that asks for one as a 32-bit program does.
const NO_COMPAT_NAMESPACE: &[Denial] = &[
    Denial {
        sign: "EPERM",
        means: "seccomp, or the host's own setting",
    },
    Denial {
        sign: "EACCES",
        means: "Landlock, AppArmor, or seccomp",
    },
    Denial {
        sign: "ENOSPC",
        means: "limit of user namespaces",
    },
    Denial {
        sign: "EUSERS",
        means: "limit of nested user namespaces",
    },
    Denial {
        sign: "ENOSYS",
        means: "seccomp",
    },
    Denial {
        sign: "signal:31",
        means: "seccomp, killing",
    },
    Denial {
        sign: "signal:11",
        means: "a kernel without 32-bit calls",
    },
];

/// The same for any other code: all but the last, which says nothing of it.
const NO_NAMESPACE: &[Denial] = NO_COMPAT_NAMESPACE
    .split_at(NO_COMPAT_NAMESPACE.len() - 1)
    .0;
