//! The same tests again: as an ordinary user, and as if user namespaces were denied.
#![expect(unsafe_code, reason = "what a child does before its program runs")]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::support::{WITHOUT_NAMESPACES, is_root, namespaces};

/// Set in a run of the tests that another run has started.
const AGAIN: &str = "SANDBOX_TEST_AGAIN";

/// Set where whoever runs the tests as root runs them as an ordinary user, too.
const USER_FOLLOWS: &str = "SANDBOX_TEST_USER_FOLLOWS";

/// A user that owns nothing on this machine.
const USER: u32 = 12_345;

/// Set in a run of one test alone.
const ALONE: &str = "SANDBOX_TEST_ALONE";

/// Runs a test in a process of its own.
pub fn alone(name: &str, test: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return test();
    }
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1");
    begin_apart(&mut command, None);
    assert!(command.status().expect("started").success());
}

/// Has a program begin in a mount namespace of its own, where this user may make one: engines on this machine mount and unmount all the
/// time, and what is counted is what sandboxes leave. Then it becomes that user, without supplementary groups.
fn begin_apart(command: &mut Command, user: Option<u32>) {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("procfs");
    // So that what leaks out of a sandbox is seen as it would be in the host's own namespace.
    let shared = mounts.lines().any(|mount| {
        let root = mount.split(' ').nth(4) == Some("/");
        root && mount.contains(" shared:")
    });
    let begin = move || {
        // SAFETY: the calls read the strings, which live as long as the program; the child has one thread.
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

/// How mounts of this namespace spread from now on.
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

#[test]
fn as_an_ordinary_user() {
    if is_root() && is_needed() {
        again(&[]);
    }
}

#[test]
fn without_user_namespaces() {
    if namespaces() && is_needed() {
        again(&[(WITHOUT_NAMESPACES, "1")]);
    }
}

/// Whether nobody else runs the tests again.
fn is_needed() -> bool {
    let follows = is_root() && std::env::var_os(USER_FOLLOWS).is_some();
    if follows {
        println!("NOT RUN here: {USER_FOLLOWS} is set");
    }
    !follows && std::env::var_os(AGAIN).is_none()
}

/// Runs all other tests from a copy of this program that every user may execute.
fn again(variables: &[(&str, &str)]) {
    let folder = tempfile::Builder::new()
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir();
    let folder = folder.expect("a folder");
    let program = folder.path().join("tests");
    std::fs::copy(std::env::current_exe().expect("this test"), &program).expect("copied");
    let runtime = folder.path().join("runtime");
    std::fs::create_dir(&runtime).expect("made");
    std::os::unix::fs::chown(&runtime, is_root().then_some(USER), None).expect("given away");
    std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).expect("set");
    let mut command = Command::new(&program);
    command
        .args(["--test-threads", "2"])
        .current_dir("/")
        .env(AGAIN, "1");
    command
        .env("XDG_RUNTIME_DIR", &runtime)
        .env("HOME", "/nonexistent");
    command.envs(variables.iter().copied());
    begin_apart(&mut command, is_root().then_some(USER));
    let output = command.output().expect("started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // Tests that run alone have a result of their own.
    let results = text.split("test result: ok. ").skip(1);
    let passed = results
        .filter_map(|rest| rest.split(' ').next()?.parse::<u32>().ok())
        .max();
    assert!(
        passed.is_some_and(|passed| passed >= crate::LEAST_TESTS),
        "{text}"
    );
}
