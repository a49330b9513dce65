//! System calls, start-up and build of static Linux programs that have no C runtime.
//!
//! The crate has three faces:
//!
//! * As an ordinary dependency it is the system call layer alone: [`syscall`] and typed wrappers
//!   around it. No wrapper touches thread-local storage or `errno`, and none allocates unless its
//!   documentation says so, so a child that shares its parent's memory may call them.
//! * Compiled with `--cfg freestanding` it is also the runtime of a program: `_start`, the memory
//!   functions the compiler calls, a global allocator ([`heap`]) and a panic handler. A program
//!   names its main function with [`entry!`] and receives an [`environment::Environment`].
//! * With the feature `build` it is the helper for build scripts that compiles such programs,
//!   `build::StaticProgram`.
//!
//! Only Linux on x86_64 and aarch64 is supported. Elsewhere the crate is empty but for the build
//! helper, which reports that the target is unsupported.
#![no_std]

extern crate alloc;
#[cfg(any(test, feature = "build"))]
extern crate std;

#[cfg(feature = "build")]
pub mod build;
pub mod numbers;

macro_rules! supported {
    ($($item:item)*) => {
        $(
            #[cfg(all(
                target_os = "linux",
                target_pointer_width = "64",
                any(target_arch = "x86_64", target_arch = "aarch64")
            ))]
            $item
        )*
    };
}

supported! {
    pub mod clone;
    pub mod credentials;
    pub mod descriptor;
    pub mod directory;
    pub mod environment;
    pub mod errno;
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
    pub mod stat;
    pub mod syscall;
    pub mod time;

    pub use descriptor::{Descriptor, Fd, RawFd};
    pub use errno::{Errno, Result};
    pub use process::Pid;

    #[cfg(freestanding)]
    mod start;
}

/// Names the main function of a freestanding program: `fn(Environment) -> i32`, whose result is the
/// exit code. In a build without `--cfg freestanding` it only checks the function's type, so that a
/// program's modules can also be unit-tested under the standard library.
#[cfg(freestanding)]
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        #[unsafe(no_mangle)]
        extern "Rust" fn sandbox_freestanding_main(
            environment: $crate::environment::Environment,
        ) -> i32 {
            let main: fn($crate::environment::Environment) -> i32 = $main;
            main(environment)
        }
    };
}

/// Names the main function of a freestanding program: `fn(Environment) -> i32`, whose result is the
/// exit code. In a build without `--cfg freestanding` it only checks the function's type, so that a
/// program's modules can also be unit-tested under the standard library.
#[cfg(not(freestanding))]
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        const _: fn($crate::environment::Environment) -> i32 = $main;
    };
}
