//! The agent: a static program that is the first process of every sandbox, and its protocol.
//!
//! [`program()`] returns the program: a static executable for this crate's target, without a C
//! runtime, about 430 KB in size. [`protocol`] is its protocol.
//!
//! # The program
//!
//! ```text
//! sandbox-agent serve --fd N [--setup]    serve a client over the socket N
//! sandbox-agent serve --stdio             serve a client over descriptors 0 (input) and 1 (output)
//!     --listen-fd N                       and later clients that connect to the listening socket N
//!     --listen NAME                       and later clients at a path or an abstract @NAME
//! sandbox-agent serve --listen NAME       the same; the first client connects to that name too
//!     --close FILE                        and set the mode of FILE to 0600
//!     --cut-network                       and first bring all interfaces down, except the loopback
//!     --cut-network-until-rules           the same; the settings then have egress rules
//! sandbox-agent connect [--wait] NAME     relay descriptors 0 and 1 to such a socket
//! sandbox-agent answer PORT               accept and close connections to a TCP port
//! sandbox-agent dial MILLISECONDS TARGET...          report which targets accept connections
//! sandbox-agent await-denial MILLISECONDS TARGET...  wait until no target does
//! sandbox-agent keep NAME                 supervise a detached sandbox, from outside
//! sandbox-agent remove FOLDER             remove FOLDER/agent and FOLDER from a foreign container
//! sandbox-agent --version
//! ```
//!
//! With a listening socket, a client with a [`protocol::BeginLink`] can replace a broken stream. It
//! counts as disconnected after the lease, or after a minute without a lease.
//!
//! `serve` exits with 0 after a client's request or the end of its owner's stream, 64 for a usage
//! error, 69 when the lease or lifetime is over, 70 for a protocol violation, and 71 for a failed
//! setup. `connect` exits with 68 where no agent listens.
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

/// The program's bytes. Empty on docs.rs and for unsupported targets: all but Linux on x86_64 and
/// aarch64.
#[must_use]
pub fn program() -> &'static [u8] {
    include_bytes!(concat!(env!("OUT_DIR"), "/sandbox-agent"))
}
