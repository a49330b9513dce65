//! What replaces libc in the agent: system calls, memory functions, a heap and `_start`.
//!
//! The module is compiled twice:
//!
//! * In this library, it is the system call layer alone: [`syscall`] and typed wrappers around it.
//!   No wrapper touches thread-local storage or `errno`, and none allocates unless its
//!   documentation says so. So a child that shares its parent's memory may call them.
//! * With `--cfg freestanding`, as the crate `runtime`, it is also the runtime of static programs:
//!   `_start`, the memory functions that the compiler calls, a global allocator ([`heap`]) and a
//!   panic handler. A program names its main function with `entry!`.
//!
//! `build.rs` in this folder compiles such programs. Build scripts include it by its path: they
//! cannot depend on the library of the package that they build.

pub mod clone;
pub mod credentials;
pub mod descriptor;
pub mod directory;
pub mod environment;
pub mod errno;
pub mod fd_writer;
pub mod fs;
pub mod heap;
pub mod io;
pub mod keyring;
pub mod landlock;
pub mod limits;
pub mod memory;
pub mod memory_functions;
pub mod mount;
pub mod namespace;
pub mod net;
pub mod path;
pub mod poll;
pub mod process;
pub mod seccomp;
pub mod signal;
pub mod socket;
#[cfg(freestanding)]
mod start;
pub mod stat;
pub mod syscall;
pub mod terminal;
pub mod time;

pub use descriptor::{Descriptor, Fd, RawFd};
pub use errno::Errno;
pub use fd_writer::FdWriter;
pub use process::Pid;

/// Names the main function of a freestanding program: `fn(Environment) -> i32`, whose result is the
/// exit code.
#[cfg(freestanding)]
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        #[unsafe(no_mangle)]
        extern "Rust" fn freestanding_main(environment: $crate::environment::Environment) -> i32 {
            let main: fn($crate::environment::Environment) -> i32 = $main;
            main(environment)
        }
    };
}
