//! System calls that no sandbox permits, each with arguments that the kernel refuses.

use alloc::vec::Vec;

use crate::call;
use crate::call_result::{CallResult, Denied};
use crate::runtime::Errno;

/// A call's name, and its number on x86-64 and on machines with the generic numbers. `NONE` where
/// it does not exist.
type KernelCall = (&'static str, usize, usize);

const NONE: usize = usize::MAX;

/// Calls that change the machine, other processes or namespaces, or that reach much code of the
/// kernel. From the headers of Linux 6.18, and not from the filter's own tables.
///
/// With every argument -1, each fails harmlessly if it is let through, also for root: -1 is no
/// descriptor, no address, no process and no flags. Calls for which that does not hold are left
/// out: `vhangup`, `personality`, `modify_ldt`.
const CALLS: &[KernelCall] = &[
    ("acct", 163, 89),
    ("add_key", 248, 217),
    ("bpf", 321, 280),
    ("clock_adjtime", 305, 266),
    ("clock_settime", 227, 112),
    ("create_module", 174, NONE),
    ("delete_module", 176, 106),
    ("fanotify_init", 300, 262),
    ("fanotify_mark", 301, 263),
    ("file_setattr", 469, 469),
    ("finit_module", 313, 273),
    ("fsconfig", 431, 431),
    ("fsmount", 432, 432),
    ("fsopen", 430, 430),
    ("fspick", 433, 433),
    ("init_module", 175, 105),
    ("io_uring_enter", 426, 426),
    ("io_uring_register", 427, 427),
    ("io_uring_setup", 425, 425),
    ("ioperm", 173, NONE),
    ("iopl", 172, NONE),
    ("kcmp", 312, 272),
    ("kexec_file_load", 320, 294),
    ("kexec_load", 246, 104),
    ("keyctl", 250, 219),
    ("listmount", 458, 458),
    ("lookup_dcookie", 212, 18),
    ("lsm_set_self_attr", 460, 460),
    ("mbind", 237, 235),
    ("migrate_pages", 256, 238),
    ("mount", 165, 40),
    ("mount_setattr", 442, 442),
    ("move_mount", 429, 429),
    ("move_pages", 279, 239),
    ("open_by_handle_at", 304, 265),
    ("open_tree", 428, 428),
    ("open_tree_attr", 467, 467),
    ("perf_event_open", 298, 241),
    ("pidfd_getfd", 438, 438),
    ("pivot_root", 155, 41),
    ("process_madvise", 440, 440),
    ("process_vm_readv", 310, 270),
    ("process_vm_writev", 311, 271),
    ("ptrace", 101, 117),
    ("quotactl", 179, 60),
    ("quotactl_fd", 443, 443),
    ("reboot", 169, 142),
    ("request_key", 249, 218),
    ("set_mempolicy", 238, 237),
    ("set_mempolicy_home_node", 450, 450),
    ("setdomainname", 171, 162),
    ("sethostname", 170, 161),
    ("setns", 308, 268),
    ("settimeofday", 164, 170),
    ("statmount", 457, 457),
    ("swapoff", 168, 225),
    ("swapon", 167, 224),
    ("syslog", 103, 116),
    ("umount2", 166, 39),
    ("unshare", 272, 97),
    ("uselib", 134, NONE),
    ("userfaultfd", 323, 282),
];

/// The names of the calls that the kernel looks at, instead of refusing them for want of a
/// privilege or by a filter.
pub fn refused_calls() -> CallResult {
    let mut through = Vec::new();
    let mut refusals = Vec::new();
    for (name, x86_64, generic) in CALLS {
        let number = if cfg!(target_arch = "x86_64") {
            *x86_64
        } else {
            *generic
        };
        if number == NONE {
            continue;
        }
        // SAFETY: the list says why these arguments are harmless for each of its calls.
        match unsafe { call::call(number, &[usize::MAX; 6]) } {
            Err(error @ (Errno::EPERM | Errno::EACCES | Errno::ENOSYS)) => refusals.push(error),
            _ => through.push(*name),
        }
    }
    match through.is_empty() {
        true => Err(Denied::Errors(refusals)),
        false => Ok(through.join(",")),
    }
}
