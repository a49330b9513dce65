//! The accepted denials of common attacks.

use crate::probe::ExpectedDenial;

/// An accepted denial: the errno or the ending that shows it, and the mechanism behind it.
#[must_use]
pub const fn denied(sign: &'static str, means: &'static str) -> ExpectedDenial {
    ExpectedDenial { sign, means }
}

/// Reading a file that is not granted.
pub const UNREADABLE: &[ExpectedDenial] = &[
    denied("ENOENT", "the sandbox's file system does not contain it"),
    denied(
        "ENOTDIR",
        "a parent of the path is not a folder in the sandbox",
    ),
    denied("EACCES", "Landlock, or permissions of another user's file"),
    denied("EPERM", "user namespace"),
    denied(
        "other_content",
        "the sandbox's file system contains another file at this path",
    ),
];

/// Writing a file that may only be read, or not at all.
pub const UNWRITABLE: &[ExpectedDenial] = &[
    denied("EROFS", "read-only mount"),
    denied("ENOENT", "the sandbox's file system does not contain it"),
    denied(
        "ENOTDIR",
        "a parent of the path is not a folder in the sandbox",
    ),
    denied("EACCES", "Landlock, or permissions of another user's file"),
    denied("EPERM", "file of another user"),
    denied("EXDEV", "another mount"),
];

/// A system call that needs a privilege or is filtered.
pub const FORBIDDEN: &[ExpectedDenial] = &[
    denied("EPERM", "no capability, or seccomp"),
    denied("EACCES", "no capability, or seccomp"),
    denied("ENOSYS", "seccomp"),
    denied("signal:31", "seccomp, killing"),
];

/// Opening a file that configures the kernel, or a device.
pub const NO_SUCH_FILE: &[ExpectedDenial] = &[
    denied("ENOENT", "the sandbox's file system does not contain it"),
    denied("EACCES", "Landlock, or permissions of another user's file"),
    denied("EPERM", "no capability, or seccomp"),
    denied("EROFS", "read-only mount"),
    denied("ENXIO", "device without a driver"),
];

/// A socket type that must not be created.
pub const NO_SUCH_SOCKET: &[ExpectedDenial] = &[
    denied("EPERM", "no capability, or seccomp"),
    denied("EACCES", "seccomp"),
    denied("EAFNOSUPPORT", "seccomp"),
    denied("EPROTONOSUPPORT", "seccomp"),
    denied("ENOSYS", "seccomp"),
];

/// Reaching a network address of the host.
pub const UNREACHABLE: &[ExpectedDenial] = &[
    denied(
        "ECONNREFUSED",
        "network namespace: the loopback is the sandbox's own",
    ),
    denied("ENETUNREACH", "network namespace without routes"),
    denied("EHOSTUNREACH", "a runtime's own network without routes"),
    denied("EADDRNOTAVAIL", "network namespace without this family"),
    denied("EAFNOSUPPORT", "seccomp"),
    denied("EPERM", "seccomp"),
    denied("EACCES", "seccomp, or Landlock"),
    denied(
        "ETIMEDOUT",
        "nothing answers in the sandbox's own network namespace",
    ),
];

/// Connecting to a Unix socket of the host.
pub const NO_SUCH_PEER: &[ExpectedDenial] = &[
    denied(
        "ECONNREFUSED",
        "network namespace: the abstract names are the sandbox's own",
    ),
    denied("ENOENT", "the sandbox's file system does not contain it"),
    denied("EPERM", "Landlock scope, or seccomp"),
    denied("EACCES", "Landlock, or seccomp"),
    denied(
        "EAFNOSUPPORT",
        "seccomp: no unix sockets where a folder of the host is granted",
    ),
];

/// Something of the host that is absent in the sandbox.
pub const ABSENT: &[ExpectedDenial] = &[denied("absent", "the sandbox does not have it")];

/// A process that must not be accessible.
pub const NO_SUCH_PROCESS: &[ExpectedDenial] = &[
    denied("ESRCH", "process namespace"),
    denied("ENOENT", "process namespace"),
    denied("EPERM", "no capability, Landlock scope, or seccomp"),
    denied("EACCES", "not dumpable, or Landlock"),
];

/// A documented behavior.
pub const AS_DOCUMENTED: &[ExpectedDenial] = &[denied("held", "the documented behavior")];

/// The execution was ended at its time limit.
pub const TIME: &[ExpectedDenial] = &[denied("timed_out", "ended at the time limit")];

/// More memory than the limit.
pub const MEMORY: &[ExpectedDenial] = &[
    denied("out_of_memory", "memory limit of the sandbox"),
    denied("ENOMEM", "memory limit of the process"),
    denied(
        "children_killed",
        "memory limit of the sandbox: children were killed",
    ),
];

/// More processes than the limit.
pub const PROCESSES: &[ExpectedDenial] = &[denied("EAGAIN", "limit of processes")];

/// More storage than the limit.
pub const STORAGE: &[ExpectedDenial] = &[
    denied("ENOSPC", "size of the sandbox's file system"),
    denied("EDQUOT", "quota"),
    denied("EFBIG", "limit of the file's size"),
];

/// More descriptors than the limit.
pub const DESCRIPTORS: &[ExpectedDenial] = &[denied("EMFILE", "limit of open files")];

/// More processor time than the limit.
pub const PROCESSOR: &[ExpectedDenial] = &[denied("throttled", "processor quota")];

/// More output than the limit.
pub const OUTPUT: &[ExpectedDenial] =
    &[denied("output_limit", "killed because of too much output")];

/// A second process or program.
pub const SINGLE: &[ExpectedDenial] = &[
    denied("EPERM", "seccomp"),
    denied("EACCES", "seccomp"),
    denied("ENOSYS", "seccomp"),
    denied("EAGAIN", "limit of processes"),
    denied("signal:31", "seccomp, killing"),
];
