//! Runs this program under a filter, and checks the results that it prints.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use sandbox_core::{CapabilityPolicy, Plan, SandboxSpec};
use sandbox_host::confinement::{Isolation, Kernel, Mode, Paths, Profile, confinement};
use sandbox_host::seccomp::Arch;

/// Names the set of attempts for the started program.
pub const VARIABLE: &str = "SANDBOX_HOST_FILTER_ATTEMPTS";

pub const SPLIT: Mode = Mode::Split {
    uid: 1000,
    gid: 1000,
};

/// The expected result of an attempt.
#[derive(Debug, Clone, Copy)]
pub enum Expected {
    /// It succeeds under the filter.
    Works,
    /// It fails with this error under the filter, but not without.
    Refused(i32),
    /// It fails with this error under the filter. Without, too, if the kernel lacks the feature.
    Unavailable(i32),
    /// It fails with this error with and without the filter.
    Same(i32),
}

/// The filter of a default plan, on a kernel without other mechanisms.
pub fn program(subprocess: bool, mode: Mode, isolation: Isolation) -> Vec<u8> {
    let mut policy = CapabilityPolicy::new();
    policy.subprocess_execution = Some(subprocess);
    let plan = Plan::resolve(&SandboxSpec::new("any"), &policy).expect("a plan");
    let arch = Arch::native().expect("an architecture with filters");
    let kernel = Kernel {
        arch,
        landlock_abi: 0,
        seccomp: true,
        seccomp_notify: false,
    };
    let profile = Profile::new(isolation, Paths::of(&plan, isolation));
    confinement(&plan, &kernel, mode, &profile).seccomp
}

/// Runs this program for one set of attempts, under the filter if there is one.
pub fn start(attempts: &str, program: Option<&[u8]>) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([
        "--exact",
        "inside",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env(VARIABLE, attempts);
    if let Some(program) = program {
        let program = program.to_vec();
        // SAFETY: between fork and exec only two system calls are made. Nothing is allocated.
        unsafe { command.pre_exec(move || install(&program)) };
    }
    command.output().expect("started")
}

fn install(program: &[u8]) -> io::Result<()> {
    let len = u16::try_from(program.len() / 8).map_err(|_| io::ErrorKind::InvalidInput)?;
    let filter = libc::sock_fprog {
        len,
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: no pointer is passed.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel copies the record and the `len` instructions at its pointer.
    if unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const filter,
        )
    } != 0
    {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Makes the attempts with and without the filter, and compares both with the expected results.
pub fn compare(attempts: &str, program: &[u8], expected: &[(&str, Expected)]) {
    let filtered = results(&start(attempts, Some(program)));
    let free = results(&start(attempts, None));
    let names = expected
        .iter()
        .map(|(name, _)| *name)
        .collect::<BTreeSet<_>>();
    assert_eq!(
        filtered.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        names
    );
    assert_eq!(
        free.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        names
    );
    // SAFETY: no pointer is passed.
    let root = unsafe { libc::geteuid() } == 0;
    for (name, expected) in expected {
        let (filtered, free) = (filtered[*name], free[*name]);
        match *expected {
            Expected::Works => assert_eq!(filtered, 0, "{name} under the filter"),
            Expected::Unavailable(errno) => assert_eq!(filtered, errno, "{name} under the filter"),
            Expected::Same(errno) => assert_eq!((filtered, free), (errno, errno), "{name}"),
            Expected::Refused(errno) => {
                assert_eq!(filtered, errno, "{name} under the filter");
                // For an unprivileged user, the kernel itself refuses some attempts with EPERM.
                if root || errno != libc::EPERM {
                    assert_ne!(free, errno, "{name} without a filter");
                }
            }
        }
    }
}

/// The result of each attempt: 0 or the error number.
fn results(output: &Output) -> BTreeMap<String, i32> {
    let text = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}: {text}\n{complaint}",
        output.status
    );
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("attempt ")?.rsplit_once(" = "));
    lines
        .map(|(name, errno)| (name.to_owned(), errno.parse().expect("a number")))
        .collect()
}
