//! The host's half of seccomp: compiles lists of rules to classic BPF. The agent installs the filters.
//!
//! A [`Filter`] is an ordered list of [`Rule`]s over system calls and their integer arguments; what no
//! rule names is allowed. [`Filter::compile`] turns it into `struct sock_filter` records, which the
//! agent installs before it executes a program. Everything here is pure: the same filter compiles to
//! the same bytes on every host.
//!
//! ```
//! use sandbox_host::seccomp::{Arch, Argument, Condition, Errno, Filter, Rule, Syscall};
//!
//! let device = Condition::masked(Argument::Second, 0xf000).one_of([0x2000, 0x6000]);
//! let filter = Filter::new(Arch::X86_64, [
//!     Rule::refuse(Syscall::MOUNT, Errno::EPERM),
//!     Rule::refuse(Syscall::MKNOD, Errno::EPERM).when(device),
//! ]);
//! let program = filter.compile()?;
//! assert_eq!(program.len() % 8, 0);
//! # Ok::<(), sandbox_host::seccomp::TooLong>(())
//! ```

mod arch;
mod assembler;
mod compile;
mod condition;
mod errno;
mod filter;
mod instruction;
#[cfg(test)]
mod interpreter;
mod profile;
#[cfg(test)]
mod profile_tests;
mod region;
mod rule;
mod syscall;
#[cfg(test)]
mod tests;

pub use arch::Arch;
pub use compile::TooLong;
pub use condition::{Argument, Bits, Condition};
pub use errno::Errno;
pub use filter::Filter;
pub use profile::EngineProfile;
pub use rule::{Action, Rule};
pub use syscall::Syscall;
