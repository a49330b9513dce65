//! The attack surface of the kernel.

use std::os::unix::fs::FileTypeExt;

use crate::probes::prelude::*;

mod answers;
mod keys;
mod limits_of_another;
mod machine_files;
mod setuid_program;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    // Programs have fallbacks for some errors alone.
    Probe::behavior(
        "kernel::answers",
        PRIVILEGES,
        "makes the calls that are refused everywhere, and those instead, and compares each answer",
        |context| Box::pin(answers::run(context)),
    ),
    Probe::isolation(
        "kernel::bpf",
        PRIVILEGES,
        "creates a BPF map",
        signs::FORBIDDEN,
        |context| kernel_call(context, Call::new(["bpf"])),
    ),
    // 32-bit programs call the kernel by other numbers, which a filter may miss.
    Probe::isolation(
        "kernel::compat_calls",
        PRIVILEGES,
        "creates a user namespace through interrupt 0x80",
        NO_COMPAT_NAMESPACE,
        |context| kernel_call(context, Call::new(["compat-namespace"])),
    ),
    // `release_agent` names a program that the kernel starts as root.
    Probe::isolation(
        "kernel::control_groups",
        PRIVILEGES,
        "opens files of the control groups for writing",
        signs::NO_SUCH_FILE,
        |context| {
            kernel_call(
                context,
                Call::new([
                    "open-for-writing",
                    "/sys/fs/cgroup/release_agent",
                    "/sys/fs/cgroup/memory/release_agent",
                    "/sys/fs/cgroup/cgroup.procs",
                    "/sys/fs/cgroup/memory/cgroup.procs",
                    "/sys/fs/cgroup/pids/cgroup.procs",
                ]),
            )
        },
    ),
    // The kernel starts this program as root when another program crashes.
    Probe::isolation(
        "kernel::core_pattern",
        PRIVILEGES,
        "opens /proc/sys/kernel/core_pattern for writing",
        signs::NO_SUCH_FILE,
        |context| {
            kernel_call(
                context,
                Call::new(["open-for-writing", "/proc/sys/kernel/core_pattern"]),
            )
        },
    ),
    // The kernel pipes core files to this program. It runs as root, outside every limit of the
    // sandbox.
    Probe::isolation(
        "kernel::crash_helper",
        PRIVILEGES,
        "looks for a limit of core files that lets the host's crash helper run, or changes \
         the limit",
        &[denied("EINVAL", "seccomp"), denied("EPERM", "seccomp")],
        |context| kernel_call(context, Call::new(["crash-helper"])),
    ),
    Probe::isolation(
        "kernel::device_nodes",
        PRIVILEGES,
        "looks for the host's device nodes besides null, zero, full, random, urandom and those of \
         terminals",
        signs::ABSENT,
        |context| Box::pin(device_nodes(context)),
    ),
    // A file handle bypasses the permissions of all parent folders.
    Probe::isolation(
        "kernel::file_handle",
        PRIVILEGES,
        "opens its own file by handle",
        HANDLES,
        |context| kernel_call(context, Call::new(["handle", ITSELF])),
    )
    .version(2),
    Probe::isolation(
        "kernel::file_requests",
        FILESYSTEM_READ_ROOTS,
        "requests snapshots, flags, keys and namespaces through ioctl",
        UNKNOWN,
        |context| kernel_call(context, Call::new(["requests"])),
    ),
    Probe::isolation(
        "kernel::host_devices",
        PRIVILEGES,
        "opens disks, the kernel's log, virtualization and network devices for writing",
        DEVICES,
        |context| {
            kernel_call(
                context,
                Call::new([
                    "open-for-writing",
                    "/dev/vda",
                    "/dev/sda",
                    "/dev/nvme0n1",
                    "/dev/mem",
                    "/dev/kmsg",
                    "/dev/kvm",
                    "/dev/fuse",
                    "/dev/loop-control",
                    "/dev/net/tun",
                ]),
            )
        },
    ),
    Probe::isolation(
        "kernel::host_name",
        PRIVILEGES,
        "sets the host name to its current value",
        signs::FORBIDDEN,
        |context| kernel_call(context, Call::new(["host-name"])),
    ),
    // io_uring runs operations that a seccomp filter does not see.
    Probe::isolation(
        "kernel::io_uring",
        PRIVILEGES,
        "sets up an io_uring",
        signs::FORBIDDEN,
        |context| kernel_call(context, Call::new(["io-uring"])),
    ),
    // The log contains addresses, and programs of other users.
    Probe::isolation(
        "kernel::kernel_log",
        PRIVILEGES,
        "reads the kernel's log by syslog(2) and /dev/kmsg",
        signs::NO_SUCH_FILE,
        |context| kernel_call(context, Call::new(["kernel-log"])),
    ),
    // The names often show for which account a token is.
    Probe::isolation(
        "kernel::key_names",
        PRIVILEGES,
        "looks in /proc/keys for a key that the host has just added to its user's key ring",
        keys::UNSEEN,
        |context| Box::pin(keys::names(context)),
    ),
    // A second layer: the kernel shows a key to its user, and to nobody else.
    Probe::isolation(
        "kernel::key_list",
        PRIVILEGES,
        "compares the device of /proc/keys with that of /proc, to see whether it is hidden",
        keys::HIDDEN,
        |context| Box::pin(same_call(context, Call::new(["alive"]), keys::shown())),
    ),
    // No namespace separates keyrings.
    Probe::isolation(
        "kernel::keyring",
        PRIVILEGES,
        "adds a key to its own keyring",
        signs::FORBIDDEN,
        |context| kernel_call(context, Call::new(["keyring"])),
    ),
    // A lease blocks other processes that open the file.
    Probe::isolation(
        "kernel::leases",
        PRIVILEGES,
        "takes a lease of a file and watches a folder by signals",
        signs::FORBIDDEN,
        |context| Box::pin(leases(context)),
    ),
    Probe::isolation(
        "kernel::limits_of_another",
        PROCESSES,
        "changes limits, priorities, processors and classes of another execution, of its group and \
         user, and of itself by number",
        signs::FORBIDDEN,
        |context| Box::pin(limits_of_another::run(context)),
    )
    .version(2),
    // The lists of these five are the probe program's own, not those of the filter.
    Probe::isolation(
        "kernel::list_attributes",
        PRIVILEGES,
        "requests each process attribute that no program needs, and those of later kernels",
        signs::FORBIDDEN,
        |context| kernel_call(context, Call::new(["list-attributes"])),
    ),
    Probe::isolation(
        "kernel::list_clone_flags",
        PRIVILEGES,
        "requests each namespace by clone, clone3 and unshare, and a sibling",
        signs::FORBIDDEN,
        |context| {
            same_call(
                context,
                Call::new(["fork"]),
                Call::new(["list-clone-flags"]),
            )
        },
    ),
    Probe::isolation(
        "kernel::list_personalities",
        PRIVILEGES,
        "requests each personality besides Linux's own",
        signs::FORBIDDEN,
        |context| kernel_call(context, Call::new(["list-personalities"])),
    ),
    Probe::isolation(
        "kernel::list_protocols",
        NETWORK_ACCESS,
        "makes sockets of each IP protocol besides ICMP, TCP, UDP and raw, and of netlink besides \
         routes",
        NO_SUCH_PROTOCOL,
        |context| {
            same_call(
                context,
                Call::new(["tcp-loopback"]),
                Call::new(["list-protocols"]),
            )
        },
    ),
    Probe::isolation(
        "kernel::list_requests",
        PRIVILEGES,
        "sends requests of terminals, file systems, disks and other devices through ioctl",
        UNKNOWN,
        |context| kernel_call(context, Call::new(["list-requests"])),
    ),
    Probe::isolation(
        "kernel::machine_files",
        PRIVILEGES,
        "reads files of /proc and /sys that describe the machine, its memory and its keys",
        signs::ABSENT,
        |context| Box::pin(machine_files::run(context)),
    ),
    Probe::isolation(
        "kernel::memory_policy",
        PRIVILEGES,
        "sets its memory policy and moves pages",
        signs::FORBIDDEN,
        |context| kernel_call(context, Call::new(["memory-policy"])),
    ),
    Probe::isolation(
        "kernel::module",
        PRIVILEGES,
        "loads a kernel module",
        signs::FORBIDDEN,
        |context| kernel_call(context, Call::new(["module"])),
    ),
    Probe::isolation(
        "kernel::mount",
        PRIVILEGES,
        "mounts a tmpfs",
        signs::FORBIDDEN,
        |context| kernel_call(context, Call::new(["mount", "/tmp"])),
    ),
    // A filter written for mount(2) may miss the newer calls.
    Probe::isolation(
        "kernel::new_mount_api",
        PRIVILEGES,
        "creates a mount with fsopen, fsconfig and fsmount",
        signs::FORBIDDEN,
        |context| kernel_call(context, Call::new(["new-mount"])),
    ),
    Probe::isolation(
        "kernel::perf",
        PRIVILEGES,
        "opens a performance counter on itself",
        signs::FORBIDDEN,
        |context| kernel_call(context, Call::new(["perf"])),
    ),
    // The kernel counts pipe buffers per user, so one sandbox could use up those of others.
    Probe::isolation(
        "kernel::pipe_size",
        PRIVILEGES,
        "enlarges a pipe to 256 KiB",
        signs::FORBIDDEN,
        |context| {
            same_call(
                context,
                Call::new(["pipe-size", "65536"]),
                Call::new(["pipe-size", "262144"]),
            )
        },
    ),
    Probe::isolation(
        "kernel::process_attributes",
        PRIVILEGES,
        "requests core scheduling, page merging and syscall user dispatch",
        signs::FORBIDDEN,
        |context| kernel_call(context, Call::new(["attributes-of-process"])),
    ),
    // Real-time processes run before every other process of the host.
    Probe::isolation(
        "kernel::realtime",
        PRIVILEGES,
        "requests the scheduling class SCHED_FIFO",
        signs::FORBIDDEN,
        |context| kernel_call(context, Call::new(["realtime"])),
    ),
    Probe::isolation(
        "kernel::refused_calls",
        PRIVILEGES,
        "makes each system call that no sandbox permits",
        signs::FORBIDDEN,
        |context| kernel_call(context, Call::new(["refused-calls"])),
    ),
    Probe::isolation(
        "kernel::resource_limits",
        PRIVILEGES,
        "looks for limits of core files, open files, locked memory, message queues and priorities \
         above the documented ones, and raises limits",
        &[denied("bounded", "limits of resources")],
        |context| kernel_call(context, Call::new(["resource-limits"])),
    ),
    // On the host at least one open succeeds, also for an ordinary user:
    // /proc/sys/kernel/ns_last_pid.
    Probe::isolation(
        "kernel::settings",
        PRIVILEGES,
        "opens each file below /proc/sys, /proc/irq, /proc/bus and /proc/fs for writing",
        signs::NO_SUCH_FILE,
        |context| kernel_call(context, Call::new(["open-kernel-settings"])),
    ),
    Probe::isolation(
        "kernel::setuid_program",
        PRIVILEGES,
        "executes a program with the set-user-ID bit of another user",
        setuid_program::UNCHANGED,
        |context| Box::pin(setuid_program::run(context)),
    )
    .setup(rooted),
    // SysRq can reboot the host, kill processes, or crash the kernel.
    Probe::isolation(
        "kernel::sysrq",
        PRIVILEGES,
        "opens /proc/sysrq-trigger for writing",
        signs::NO_SUCH_FILE,
        |context| {
            kernel_call(
                context,
                Call::new(["open-for-writing", "/proc/sysrq-trigger"]),
            )
        },
    ),
    // The terminal's owner would appear to have typed them.
    Probe::isolation(
        "kernel::terminal_input",
        PRIVILEGES,
        "pushes a character into a terminal with TIOCSTI",
        NO_INPUT,
        |context| kernel_call(context, Call::new(["terminal-input", "0"])),
    )
    .version(2),
    // The kernel ignores the high bits of the request. A careless filter compares them.
    Probe::isolation(
        "kernel::terminal_input_high_bits",
        PRIVILEGES,
        "pushes a character into a terminal with TIOCSTI and bits above the 32nd",
        NO_INPUT,
        |context| kernel_call(context, Call::new(["terminal-input", "57005"])),
    )
    .version(2),
    // In a new user namespace a process has every capability.
    Probe::isolation(
        "kernel::user_namespace",
        PRIVILEGES,
        "creates a user namespace",
        NO_NAMESPACE,
        |context| kernel_call(context, Call::new(["user-namespace"])),
    ),
    // Handling page faults in user space widens race conditions in the kernel.
    Probe::isolation(
        "kernel::userfaultfd",
        PRIVILEGES,
        "creates a userfaultfd",
        signs::FORBIDDEN,
        |context| kernel_call(context, Call::new(["userfaultfd"])),
    ),
];

/// How a user namespace may be denied to a 32-bit call.
const NO_COMPAT_NAMESPACE: &[ExpectedDenial] = &[
    denied("EPERM", "seccomp, or the host's own setting"),
    denied("EACCES", "Landlock, AppArmor, or seccomp"),
    denied("ENOSPC", "limit of user namespaces"),
    denied("EUSERS", "limit of nested user namespaces"),
    denied("ENOSYS", "seccomp"),
    denied("signal:31", "seccomp, killing"),
    denied("signal:11", "a kernel without 32-bit calls"),
];

/// As above, for other calls: without the sign of a kernel that has no 32-bit calls.
const NO_NAMESPACE: &[ExpectedDenial] = NO_COMPAT_NAMESPACE
    .split_at(NO_COMPAT_NAMESPACE.len() - 1)
    .0;

const HANDLES: &[ExpectedDenial] = &[
    denied("EPERM", "no capability, or seccomp"),
    denied("ENOSYS", "seccomp"),
    denied("EOPNOTSUPP", "a file system without handles"),
];

/// The kernel has the same answers for a protocol without a module, and for raw sockets.
const NO_SUCH_PROTOCOL: &[ExpectedDenial] = &[
    denied("EPROTONOSUPPORT", "seccomp, or the kernel"),
    denied("ESOCKTNOSUPPORT", "the kernel: no such type of this family"),
    denied("EAFNOSUPPORT", "seccomp"),
    denied("EPERM", "no capability, or seccomp"),
    denied("EACCES", "seccomp"),
    denied("EINVAL", "the kernel: no such type or protocol"),
];

/// Denials before the kernel looks up the file, which does not exist.
const UNKNOWN: &[ExpectedDenial] = &[
    denied("ENOTTY", "seccomp"),
    denied("EPERM", "seccomp"),
    denied("EACCES", "seccomp"),
    denied("ENOSYS", "seccomp"),
];

const DEVICES: &[ExpectedDenial] = &[
    denied("ENOENT", "the sandbox's file system does not contain it"),
    denied("EACCES", "nodev mount, Landlock, or permissions"),
    denied("EPERM", "device cgroup"),
    denied("EROFS", "read-only mount"),
];

/// Device nodes that every program may expect.
const USUAL_NODES: [&str; 8] = [
    "console", "full", "null", "ptmx", "random", "tty", "urandom", "zero",
];

async fn device_nodes(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let mut call = Call::new(["device-nodes"]);
    for entry in std::fs::read_dir("/dev")? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let is_node = kind.is_char_device() || kind.is_block_device();
        if is_node && !USUAL_NODES.iter().any(|name| entry.file_name() == *name) {
            call = call.and(entry.path());
        }
    }
    same_call(context, Call::new(["alive"]), call).await
}

async fn leases(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let folder = context.outside()?;
    let control = Call::new(["lease"]).and(folder.join("leased")).and(&folder);
    context.host_control(&control).await?;
    let own = context.inside("own");
    context.allow_control(&Call::new(["create", &own])).await;
    let file = context.inside("leased");
    context.attack(&Call::new(["lease", &file, "/tmp"])).await;
    context.no_host_effect("a lease ends with the program");
    Ok(())
}

/// How pushing a character into a terminal may be denied.
const NO_INPUT: &[ExpectedDenial] = &[
    denied("EPERM", "seccomp"),
    denied("EACCES", "seccomp, or no device for terminals"),
    denied("ENOSYS", "seccomp"),
    denied("ENOENT", "no device for terminals"),
    denied("ENXIO", "no device for terminals"),
    denied("EIO", "the kernel's own setting"),
];
