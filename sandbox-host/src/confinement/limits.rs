//! Resource limits of all processes of an execution.

use sandbox_agent::protocol::ResourceLimit;
use sandbox_core::Plan;

use super::Profile;

// The same numbers on each `seccomp::Arch`.
const RLIMIT_FSIZE: u32 = 1;
const RLIMIT_DATA: u32 = 2;
const RLIMIT_CORE: u32 = 4;
const RLIMIT_NPROC: u32 = 6;
const RLIMIT_NOFILE: u32 = 7;
const RLIMIT_MEMLOCK: u32 = 8;
const RLIMIT_MSGQUEUE: u32 = 12;
const RLIMIT_NICE: u32 = 13;
const RLIMIT_RTPRIO: u32 = 14;

/// One byte, less than any core file, so none is written. If `/proc/sys/kernel/core_pattern` names
/// a program, the kernel starts it whatever the limit is, as root and outside of the sandbox,
/// except for this value. The filter prevents code from setting another one.
pub const NO_CORE_FILE: u64 = 1;
/// The kernel's default before 5.16, enough for the keys of a cryptography library.
const LOCKED_MEMORY: u64 = 64 << 10;
/// The kernel's default (`MQ_BYTES_MAX`), so that a higher limit of the host is not inherited.
const MESSAGE_QUEUES: u64 = 819_200;

/// The resource limits of all processes of an execution.
///
/// - Open files as in the plan; no core files or core handlers; no raised priority, no real-time
///   scheduling; little locked memory.
/// - `RLIMIT_FSIZE`, `RLIMIT_NPROC` and `RLIMIT_DATA` only if the profile requests them. They count
///   per file, user and process, so a file system with a size and a control group are better. Also,
///   a file limit kills with `SIGXFSZ`, while programs can handle a full disk.
#[must_use]
pub fn limits(plan: &Plan, profile: &Profile) -> Vec<ResourceLimit> {
    let asked =
        |condition: bool, resource, value| condition.then_some(ResourceLimit { resource, value });
    let always = |resource, value| Some(ResourceLimit { resource, value });
    let limits = [
        asked(profile.disk_by_rlimit, RLIMIT_FSIZE, plan.disk.as_u64()),
        asked(profile.memory_by_rlimit, RLIMIT_DATA, plan.memory.as_u64()),
        always(RLIMIT_CORE, NO_CORE_FILE),
        asked(profile.pids_by_rlimit, RLIMIT_NPROC, u64::from(plan.pids)),
        always(RLIMIT_NOFILE, u64::from(plan.open_files)),
        always(RLIMIT_MEMLOCK, LOCKED_MEMORY),
        always(RLIMIT_MSGQUEUE, MESSAGE_QUEUES),
        always(RLIMIT_NICE, 0),
        always(RLIMIT_RTPRIO, 0),
    ];
    limits.into_iter().flatten().collect()
}
