//! The signs by which attacks are stopped, by what gives them.

use crate::probe::Denial;

const fn sign(sign: &'static str, means: &'static str) -> Denial {
    Denial { sign, means }
}

/// Reading a file that is not granted.
pub const UNREADABLE: &[Denial] = &[
    sign("ENOENT", "the sandbox's file system does not hold it"),
    sign(
        "ENOTDIR",
        "the sandbox's file system holds something else on the way",
    ),
    sign("EACCES", "Landlock, or permissions of another user's file"),
    sign("EPERM", "user namespace"),
    sign(
        "other_content",
        "the sandbox's file system holds another file there",
    ),
];

/// Writing a file that may only be read, or not at all.
pub const UNWRITABLE: &[Denial] = &[
    sign("EROFS", "read-only mount"),
    sign("ENOENT", "the sandbox's file system does not hold it"),
    sign(
        "ENOTDIR",
        "the sandbox's file system holds something else on the way",
    ),
    sign("EACCES", "Landlock, or permissions of another user's file"),
    sign("EPERM", "file of another user"),
    sign("EXDEV", "another mount"),
];

/// A system call that needs a privilege, or that is filtered.
pub const FORBIDDEN: &[Denial] = &[
    sign("EPERM", "no capability, or seccomp"),
    sign("EACCES", "no capability, or seccomp"),
    sign("ENOSYS", "seccomp"),
    sign("signal:31", "seccomp, killing"),
];

/// Opening a file that configures the kernel, or a device.
pub const NO_SUCH_FILE: &[Denial] = &[
    sign("ENOENT", "the sandbox's file system does not hold it"),
    sign("EACCES", "Landlock, or permissions of another user's file"),
    sign("EPERM", "no capability, or seccomp"),
    sign("EROFS", "read-only mount"),
    sign("ENXIO", "device without a driver"),
];

/// A kind of socket that must not be made.
pub const NO_SUCH_SOCKET: &[Denial] = &[
    sign("EPERM", "no capability, or seccomp"),
    sign("EACCES", "seccomp"),
    sign("EAFNOSUPPORT", "seccomp"),
    sign("EPROTONOSUPPORT", "seccomp"),
    sign("ENOSYS", "seccomp"),
];

/// Reaching a network address of the host.
pub const UNREACHABLE: &[Denial] = &[
    sign(
        "ECONNREFUSED",
        "network namespace: the loopback is the sandbox's own",
    ),
    sign("ENETUNREACH", "network namespace without routes"),
    sign("EHOSTUNREACH", "a runtime's own network without routes"),
    sign("EADDRNOTAVAIL", "network namespace without this family"),
    sign("EAFNOSUPPORT", "seccomp"),
    sign("EPERM", "seccomp"),
    sign("EACCES", "seccomp, or Landlock"),
    sign(
        "ETIMEDOUT",
        "nobody answers in the sandbox's own network namespace",
    ),
];

/// Reaching a socket of the host by its name.
pub const NO_SUCH_PEER: &[Denial] = &[
    sign(
        "ECONNREFUSED",
        "network namespace: the abstract names are the sandbox's own",
    ),
    sign("ENOENT", "the sandbox's file system does not hold it"),
    sign("EPERM", "Landlock scope, or seccomp"),
    sign("EACCES", "Landlock, or seccomp"),
    sign(
        "EAFNOSUPPORT",
        "seccomp: no unix sockets where a folder of the host is granted",
    ),
];

/// Something of the host is not there at all.
pub const ABSENT: &[Denial] = &[sign("absent", "it is not there")];

/// A process that must not be touched.
pub const NO_SUCH_PROCESS: &[Denial] = &[
    sign("ESRCH", "process namespace"),
    sign("ENOENT", "process namespace"),
    sign("EPERM", "no capability, Landlock scope, or seccomp"),
    sign("EACCES", "not dumpable, or Landlock"),
];

/// What the suite expects of a behaviour.
pub const AS_DOCUMENTED: &[Denial] = &[sign(
    "held",
    "the behaviour that the documentation promises",
)];

/// The execution was ended at its time limit.
pub const TIME: &[Denial] = &[sign("timed_out", "ended at the time limit")];

/// More memory than the limit.
pub const MEMORY: &[Denial] = &[
    sign("out_of_memory", "memory limit of the sandbox"),
    sign("ENOMEM", "memory limit of the process"),
    sign(
        "children_killed",
        "memory limit of the sandbox: children were killed",
    ),
];

/// More processes than the limit.
pub const PROCESSES: &[Denial] = &[sign("EAGAIN", "limit of processes")];

/// More storage than the limit.
pub const STORAGE: &[Denial] = &[
    sign("ENOSPC", "size of the sandbox's file system"),
    sign("EDQUOT", "quota"),
    sign("EFBIG", "limit of the file's size"),
];

/// More descriptors than the limit.
pub const DESCRIPTORS: &[Denial] = &[sign("EMFILE", "limit of open files")];

/// More processor time than the limit.
pub const PROCESSOR: &[Denial] = &[sign("throttled", "processor quota")];

/// More output than is read on.
pub const OUTPUT: &[Denial] = &[sign("output_limit", "killed for its output")];

/// A second process or program.
pub const SINGLE: &[Denial] = &[
    sign("EPERM", "seccomp"),
    sign("EACCES", "seccomp"),
    sign("ENOSYS", "seccomp"),
    sign("EAGAIN", "limit of processes"),
    sign("signal:31", "seccomp, killing"),
];
