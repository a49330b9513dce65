//! Measures what a filter adds to system calls. Run by hand, on an idle machine:
//!
//! ```text
//! cargo test --release -p sandbox-host --test seccomp_kernel -- --ignored --nocapture cost
//! ```

use std::ptr::null;
use std::time::Instant;

use libc::syscall;
use sandbox_host::confinement::{Isolation, Mode};

use crate::filtered::{SPLIT, program, start};

/// The name of these measurements for the child process.
pub const SET: &str = "measure";

const CALLS: u32 = 200_000;
const ROUNDS: u32 = 9;

/// Prints nanoseconds per call without a filter, and under two filters of executions.
#[test]
#[ignore = "a measurement: prints numbers and checks nothing"]
fn cost_of_system_calls() {
    let shared = program(true, Mode::Shared, Isolation::Host);
    let split = program(true, SPLIT, Isolation::Namespaces);
    for (name, filter) in [
        ("no filter", None),
        ("namespaces", Some(&split)),
        ("host", Some(&shared)),
    ] {
        let output = start(SET, filter.map(|program| program.as_slice()));
        let size = filter.map_or(0, |program| program.len() / 8);
        println!("{name} ({size} instructions)");
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            if let Some(line) = line.strip_prefix("cost ") {
                println!("  {line}");
            }
        }
    }
}

/// Measures calls in this process, which may be under a filter.
pub fn run() {
    // SAFETY: the arguments are numbers, null, or a string that outlives the call. The kernel
    // checks them.
    unsafe {
        cost("getppid: never refused", || syscall(libc::SYS_getppid));
        cost("mmap of nothing: EINVAL", || {
            syscall(libc::SYS_mmap, 0, 0, 0, 0, -1, 0)
        });
        cost("ioctl of no file: EBADF", || {
            syscall(libc::SYS_ioctl, -1, libc::FIONREAD, 0)
        });
        cost("fcntl of no file: EBADF", || {
            syscall(libc::SYS_fcntl, -1, libc::F_GETFD)
        });
        cost("prctl: a query", || {
            syscall(libc::SYS_prctl, libc::PR_GET_DUMPABLE, 0, 0, 0, 0)
        });
        cost("openat of no folder: EBADF", || {
            syscall(libc::SYS_openat, -1, c"x".as_ptr(), libc::O_RDONLY)
        });
        cost("prlimit64: a query", || {
            syscall(
                libc::SYS_prlimit64,
                0,
                libc::RLIMIT_NOFILE,
                null::<u8>(),
                null::<u8>(),
            )
        });
    }
}

fn cost(name: &str, call: impl Fn() -> libc::c_long) {
    let round = || {
        let begin = Instant::now();
        for _ in 0..CALLS {
            call();
        }
        begin.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    let best = (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min);
    println!("cost {best:6.1} ns  {name}");
}
