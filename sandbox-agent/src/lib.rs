//! The one static program that runs as the first process of every sandbox, and its protocol.
//!
//! [`program()`] gives the program's bytes: a static executable for the target that this crate was compiled for, without a C
//! runtime, about 260 KB. [`protocol`] is what it speaks.
//!
//! # The program
//!
//! ```text
//! sandbox-agent serve --fd N [--setup]    serve the host at the other end of the socket N
//! sandbox-agent serve --stdio             read the host from descriptor 0, write to it on 1
//!     --listen-fd N                       and later clients that the listening socket N accepts
//!     --listen NAME                       and later clients on a path, or behind `@` an abstract name
//! sandbox-agent serve --listen NAME       the same, where the first client comes in by that name as well
//!     --close FILE                        and FILE is its owner's alone from now on
//!     --cut-network                       and every interface but the loopback is down, for good, before anybody is served
//! sandbox-agent connect [--wait] NAME     carry bytes between such a socket and descriptors 0 and 1
//! sandbox-agent keep NAME                 keep a detached sandbox: outside of it, as its agent's parent
//! sandbox-agent remove FOLDER             remove FOLDER/agent and FOLDER, where the agent was put for a while
//! sandbox-agent --version
//! ```
//!
//! Where it listens, a client's stream may break and be replaced ([`protocol::Link`]); it counts as ended when that has not happened within
//! the lease (without one, a minute).
//!
//! It exits with 0 when a client asked it to or its owner's stream ended, 64 for a wrong command line, 68 when nobody
//! listens there, 69 when its lease was over, 70 when the host broke the protocol and 71 when the sandbox could not be set up.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod protocol;
pub mod syscall_numbers;

#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub mod runtime;

#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#[doc(hidden)]
pub mod program;

/// The program's bytes; empty where it could not be built: on docs.rs, and for targets that are not Linux on x86_64 or
/// aarch64.
#[must_use]
pub fn program() -> &'static [u8] {
    include_bytes!(concat!(env!("OUT_DIR"), "/sandbox-agent"))
}
