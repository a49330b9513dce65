//! The kernel's surface.

use crate::probe::Probe;

mod bpf;
mod compat_calls;
mod control_groups;
mod core_pattern;
mod file_handle;
mod host_devices;
mod host_name;
mod io_uring;
mod kernel_log;
mod keyring;
mod module;
mod mount;
mod new_mount_api;
mod perf;
mod realtime;
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
    file_handle::PROBE,
    host_devices::PROBE,
    host_name::PROBE,
    io_uring::PROBE,
    kernel_log::PROBE,
    keyring::PROBE,
    module::PROBE,
    mount::PROBE,
    new_mount_api::PROBE,
    perf::PROBE,
    realtime::PROBE,
    setuid_program::PROBE,
    sysrq::PROBE,
    terminal_input::PROBE,
    terminal_input_high_bits::PROBE,
    user_namespace::PROBE,
    userfaultfd::PROBE,
];
