//! Filters in the running kernel. This test program runs itself under a filter and attempts system
//! calls. Their results are compared with the expected ones, and with those without a filter.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#![expect(
    unsafe_code,
    reason = "raw system calls, and a filter installed between fork and exec"
)]

mod attempts;
mod filtered;
mod measure;

use filtered::{Expected, SPLIT, compare, program, start};
use libc::{EAFNOSUPPORT, EBADF, EINVAL, ENOSYS, ENOTTY, EPERM, EPROTONOSUPPORT, ESOCKTNOSUPPORT};
use sandbox_core::policy::NetworkPolicy;
use sandbox_host::confinement::{
    Isolation, Kernel, Mode, handled_fs, handled_net, privileges, scoped,
};
use sandbox_host::seccomp::Arch;

use Expected::{Refused, Same, Unavailable, Works};

#[test]
fn kernel_surface_is_closed_and_programs_run() {
    compare(
        "surface",
        &program(true, SPLIT, Isolation::Namespaces),
        &[
            ("unshare of a user namespace", Refused(EPERM)),
            ("clone into a user namespace", Refused(EPERM)),
            ("clone beside the parent", Refused(EPERM)),
            ("clone3", Refused(ENOSYS)),
            ("mount", Refused(EPERM)),
            ("fsopen", Refused(EPERM)),
            ("io_uring_setup", Refused(ENOSYS)),
            ("keyctl", Refused(EPERM)),
            ("ptrace", Refused(EPERM)),
            ("call 5000", Same(ENOSYS)),
            ("call getpid of x32", Same(ENOSYS)),
            ("mknod of a device", Refused(EPERM)),
            ("mknod of a fifo", Works),
            ("chmod 4755", Refused(EPERM)),
            ("chmod 2755", Refused(EPERM)),
            ("new file with set-user-id", Refused(EPERM)),
            ("new file", Works),
            ("open with a mode", Works),
            ("openat2", Refused(ENOSYS)),
            ("lease", Refused(EPERM)),
            ("rename that leaves a device", Refused(EPERM)),
            ("mapping", Works),
            ("mapping of huge pages", Refused(EPERM)),
            ("file in memory", Works),
            ("file in huge pages", Refused(EPERM)),
            ("limit of core files by prlimit", Refused(EINVAL)),
            #[cfg(target_arch = "x86_64")]
            ("limit of core files by setrlimit", Refused(EINVAL)),
            ("limit of core files read", Works),
            ("pipe of a page", Works),
            ("pipe of the usual size", Works),
            ("pipe a byte larger", Refused(EPERM)),
            ("pipe twice as large", Refused(EPERM)),
            ("btrfs: snapshot", Refused(ENOTTY)),
            ("btrfs: new subvolume", Refused(ENOTTY)),
            ("flags of a file set", Refused(ENOTTY)),
            ("flags of a file read", Same(EBADF)),
            ("clone of a file", Same(EBADF)),
            ("count of bytes to read", Same(EBADF)),
            ("core scheduling", Refused(EPERM)),
            ("name of a thread", Works),
            ("move pages", Refused(EPERM)),
            ("terminal unlocked", Same(EBADF)),
            ("number of a terminal", Same(EBADF)),
            ("end of a terminal opened", Same(EBADF)),
            ("controlling terminal", Same(EBADF)),
            ("terminal input", Refused(EPERM)),
            ("terminal input with high bits", Refused(EPERM)),
            ("terminal size", Same(ENOTTY)),
            ("personality READ_IMPLIES_EXEC", Refused(EPERM)),
            ("personality question", Works),
            ("scheduler FIFO", Refused(EPERM)),
            ("scheduler FIFO with reset on fork", Refused(EPERM)),
            ("scheduler BATCH", Works),
            ("scheduler BATCH by number", Refused(EPERM)),
            ("scheduler OTHER by number", Works),
            ("socket AF_VSOCK", Unavailable(EAFNOSUPPORT)),
            ("socket AF_ALG", Unavailable(EAFNOSUPPORT)),
            ("socket AF_PACKET", Refused(EAFNOSUPPORT)),
            ("socket AF_UNIX", Works),
            ("socket AF_INET", Works),
            ("socket of SCTP", Unavailable(EPROTONOSUPPORT)),
            ("netlink ROUTE", Works),
            ("netlink SOCK_DIAG", Refused(EPROTONOSUPPORT)),
            ("pair of streams", Works),
            ("pair of datagrams", Works),
            ("shared memory", Works),
            ("a thread", Works),
            ("/bin/true", Works),
        ],
    );
}

#[test]
fn only_threads_start_without_subprocesses() {
    compare(
        "processes",
        &program(false, SPLIT, Isolation::Namespaces),
        &[
            ("fork", Refused(EPERM)),
            ("vfork", Refused(EPERM)),
            ("clone3", Refused(ENOSYS)),
            ("/bin/true", Refused(EPERM)),
            ("a thread", Works),
        ],
    );
}

/// Attempts on the limits and priorities of other processes.
const ON_OTHER_PROCESSES: &[(&str, Expected)] = &[
    ("limits of another set", Refused(EPERM)),
    ("own limits set", Works),
    ("own limits by number read", Works),
    ("affinity of another", Refused(EPERM)),
    ("scheduling of another", Refused(EPERM)),
    ("priority of another", Refused(EPERM)),
    ("priority of a user", Refused(EPERM)),
    ("own priority", Works),
    ("input and output priority of another", Refused(EPERM)),
];

#[test]
fn code_cannot_affect_agent_of_same_user() {
    compare(
        "agent",
        &program(true, Mode::Shared, Isolation::Container),
        &[
            ON_OTHER_PROCESSES,
            &[
                ("kill of process 1", Refused(EPERM)),
                ("kill of all processes", Refused(EPERM)),
                ("kill of itself", Works),
                ("tgkill of process 1", Refused(EPERM)),
                ("tgkill of itself", Works),
                ("pidfd_open of process 1", Refused(EPERM)),
                ("pidfd_open of itself", Works),
                ("pidfd_send_signal", Refused(ENOSYS)),
                ("/bin/true", Works),
            ],
        ]
        .concat(),
    );
}

#[test]
fn executions_cannot_change_each_others_limits() {
    compare(
        "peers",
        &program(true, SPLIT, Isolation::Namespaces),
        &[ON_OTHER_PROCESSES, &[("/bin/true", Works)]].concat(),
    );
}

#[test]
fn host_namespaces_have_no_sockets_or_shared_objects() {
    compare(
        "host",
        &program(true, Mode::Shared, Isolation::Host),
        &[
            ("socket AF_UNIX", Refused(EAFNOSUPPORT)),
            ("socket AF_INET", Refused(EAFNOSUPPORT)),
            ("netlink ROUTE", Refused(EAFNOSUPPORT)),
            ("pair of streams", Works),
            ("pair of datagrams", Refused(ESOCKTNOSUPPORT)),
            ("shared memory", Refused(ENOSYS)),
            ("a thread", Works),
            ("/bin/true", Works),
        ],
    );
}

#[cfg(target_arch = "x86_64")]
#[test]
fn call_of_32_bit_interface_kills() {
    use std::os::unix::process::ExitStatusExt;
    let filtered = start(
        "int 0x80",
        Some(&program(true, SPLIT, Isolation::Namespaces)),
    );
    let free = start("int 0x80", None);
    // A kernel without the 32-bit interface kills the process with another signal.
    if free.status.success() {
        assert_eq!(filtered.status.signal(), Some(libc::SIGSYS), "{filtered:?}");
    } else {
        assert!(filtered.status.signal().is_some(), "{filtered:?}");
    }
}

#[test]
fn kernel_accepts_every_program() {
    for isolation in [Isolation::Namespaces, Isolation::Container, Isolation::Host] {
        for mode in [SPLIT, Mode::Shared] {
            for subprocess in [true, false] {
                let output = start("nothing", Some(&program(subprocess, mode, isolation)));
                assert!(
                    output.status.success(),
                    "{isolation:?} {mode:?} {subprocess}: {output:?}"
                );
            }
        }
    }
    let kernel = Kernel {
        arch: Arch::native().expect("an architecture with filters"),
        landlock_abi: 0,
        seccomp: true,
        seccomp_notify: true,
    };
    assert!(privileges(&kernel, SPLIT).is_enforced());
}

/// The handled rights are all that the running kernel's ABI knows: the kernel refuses one more.
#[test]
fn landlock_handles_all_rights_of_the_running_abi() {
    #[repr(C)]
    struct Attributes([u64; 3]);
    const VERSION: u32 = 1;
    let create = |attributes: Option<&Attributes>, flags: u32| {
        let address = attributes.map_or(std::ptr::null(), std::ptr::from_ref);
        let size = if attributes.is_some() {
            size_of::<Attributes>()
        } else {
            0
        };
        // SAFETY: the kernel reads the record, when there is one.
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, address, size, flags) }
    };
    let abi = create(None, VERSION);
    if abi < 1 {
        // Without Landlock, the backend handles no rights either.
        let error = std::io::Error::last_os_error().raw_os_error();
        assert!(
            [Some(ENOSYS), Some(libc::EOPNOTSUPP)].contains(&error),
            "{error:?}"
        );
        assert_eq!((handled_fs(0), handled_net(0)), (0, 0));
        return;
    }
    let abi = abi as u32;
    let known = [
        handled_fs(abi),
        handled_net(abi),
        scoped(abi, Isolation::Host, &NetworkPolicy::None),
    ];
    let set = create(Some(&Attributes(known)), 0);
    assert!(set >= 0, "ABI {abi}: {}", std::io::Error::last_os_error());
    // SAFETY: the descriptor was just created, and nothing else owns it.
    drop(unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(set as i32) });
    // Later ABIs know more rights than are used.
    if abi <= 7 {
        for place in 0..known.len() {
            let mut more = known;
            // The bits are contiguous, so this sets the next one.
            more[place] |= known[place] + 1;
            assert!(
                create(Some(&Attributes(more)), 0) < 0,
                "ABI {abi} knows more than {known:x?}"
            );
        }
    }
}

/// The process that [`start`] runs.
#[test]
#[ignore = "started by the other tests, under their filters"]
fn inside() {
    attempts::run(&std::env::var(filtered::VARIABLE).expect("started by another test"));
}
