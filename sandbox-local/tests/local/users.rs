//! Runs all tests once more: as an ordinary user, and as if user namespaces were denied.
#![expect(unsafe_code, reason = "system calls between fork and exec")]

use std::os::unix::process::CommandExt;
use std::process::Command;

use sandbox_testing::users::{Rerun, is_root};

use crate::harness::{Need, Test, test};
use crate::support::WITHOUT_NAMESPACES;

pub const TESTS: &[Test] = &[
    test!(sync as_an_ordinary_user, Need::Root, Need::FirstRun, Need::NoUserFollows),
    test!(sync without_user_namespaces, Need::Namespaces, Need::FirstRun),
];

/// Set if the tests are also run as an ordinary user by other means.
const USER_FOLLOWS: &str = "SANDBOX_TEST_USER_FOLLOWS";

const TWO_THREADS: &str = "--test-threads=2";

/// Set in the nightly run.
const FULL: &str = "SANDBOX_TEST_FULL";

/// Selects tests of what runs above the agent. The nightly run repeats them, too.
const ABOVE_THE_AGENT: [&str; 3] = ["libraries::", "packages::", "sessions::"];

/// An unused user id.
const USER: u32 = 12_346;

/// Set in the process of a single test.
const ALONE: &str = "SANDBOX_TEST_ALONE";

/// Runs a test in its own process.
pub fn alone(name: &str, test: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return test();
    }
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1");
    isolate_mounts(&mut command, None);
    assert!(command.status().expect("started").success());
}

/// Starts the program in its own mount namespace if this user may create one: container engines
/// mount and unmount all the time, and the tests count mounts. Then switches to `user`, without
/// supplementary groups.
fn isolate_mounts(command: &mut Command, user: Option<u32>) {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("procfs");
    // Keep the propagation, so that mounts which leak out of a sandbox are visible.
    let shared = mounts.lines().any(|mount| {
        let root = mount.split(' ').nth(4) == Some("/");
        root && mount.contains(" shared:")
    });
    let begin = move || {
        // SAFETY: the calls read the strings, which live as long as the program; the child has one
        // thread.
        let apart = unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0;
        if apart {
            propagate(libc::MS_PRIVATE)?;
            if shared {
                propagate(libc::MS_SHARED)?;
            }
        }
        match user {
            None => Ok(()),
            Some(user) => become_user(user),
        }
    };
    // SAFETY: what is called between fork and exec are system calls, which allocate nothing.
    unsafe { command.pre_exec(begin) };
}

/// Sets the propagation of all mounts.
fn propagate(how: libc::c_ulong) -> std::io::Result<()> {
    let root = c"/".as_ptr();
    let (none, nothing) = (std::ptr::null(), std::ptr::null());
    // SAFETY: `root` is a string, and the other pointers are not used for a change of propagation.
    done(unsafe { libc::mount(none, root, none, libc::MS_REC | how, nothing) })
}

fn become_user(user: u32) -> std::io::Result<()> {
    // SAFETY: no pointer is read where there are no groups.
    done(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: the calls take no pointer.
    done(unsafe { libc::setgid(user) })?;
    // SAFETY: as above.
    done(unsafe { libc::setuid(user) })
}

fn done(answer: libc::c_int) -> std::io::Result<()> {
    match answer {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn as_an_ordinary_user() {
    rerun(&[], &[TWO_THREADS], crate::MIN_REPEATED_TESTS);
}

/// As a user without other processes: without namespaces, a limit of processes counts all of the
/// user. R starts many, so its packages are not installed while other tests run.
fn without_user_namespaces() {
    let variables = [(WITHOUT_NAMESPACES, "1")];
    if std::env::var_os(FULL).is_none() {
        let mut core = vec![TWO_THREADS];
        core.extend(ABOVE_THE_AGENT.iter().flat_map(|tests| ["--skip", tests]));
        return rerun(&variables, &core, crate::MIN_REPEATED_TESTS);
    }
    let others = [TWO_THREADS, "--skip", "cran_packages"];
    rerun(&variables, &others, crate::MIN_REPEATED_TESTS);
    rerun(&variables, &["--test-threads=1", "cran_packages"], 0);
}

/// Whether an ordinary user runs the tests after this run.
pub fn user_follows() -> bool {
    std::env::var_os(USER_FOLLOWS).is_some()
}

/// Runs tests from a copy of this program, with these variables and arguments.
fn rerun(variables: &[(&str, &str)], arguments: &[&str], min_passed: u32) {
    let user = is_root().then_some(USER);
    let rerun = Rerun::new(user);
    let mut command = rerun.command();
    command.envs(variables.iter().copied()).args(arguments);
    isolate_mounts(&mut command, user);
    let output = command.output().expect("started");
    Rerun::assert_passed(&output, min_passed);
}
