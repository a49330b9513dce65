//! The conformance suite: it attacks a backend, looks whether the attacks fail, and says why that can be believed.
//!
//! A [`Probe`] is an attack with everything that makes its failure mean something: the same attack without a sandbox, which must
//! succeed; what the policy permits, which must succeed inside of the sandbox; a look at the host afterwards; and the signs by
//! which known mechanisms stop it. [`judge`] makes one [`Verdict`] out of that. Attacks run from a static program of the
//! suite's own, so that a missing tool cannot pass for a stopped attack.
//!
//! ```no_run
//! # async fn example() -> Result<(), sandbox_conformance::Trouble> {
//! use sandbox_conformance::{Options, Target, run};
//!
//! let report = run(&Target::tier("local")?, &Options::default()).await?;
//! for finding in &report.findings {
//!     println!("{} {}", finding.id, finding.verdict);
//! }
//! # Ok(()) }
//! ```

mod addresses;
pub mod canary;
mod evidence;
mod finding;
pub mod grounds;
pub mod host;
mod host_groups;
mod host_remains;
pub mod known;
pub mod listeners;
pub mod pool;
mod probe;
pub mod probes;
pub mod profiles;
pub mod program;
pub mod reaper;
pub mod remains;
pub mod report;
mod room;
mod runner;
pub mod secret;
pub mod selfcheck;
mod stage;
pub mod suite;
mod target;
#[cfg(feature = "trials")]
pub mod trials;
mod verdict;
mod wheel;

// Named so that the linker keeps the backends that the features choose.
use sandbox as _;

pub use evidence::{Attempt, Evidence, Oracle, Step};
pub use finding::{Finding, Repetition, Report, Standing};
pub use probe::{Denial, Kind, Probe, Setting, Trouble};
pub use room::Room;
pub use runner::{CREATIONS, Options, Progress, REPETITIONS, repeat, run};
pub use sandbox_core::matrix::Verdict;
pub use stage::Stage;
pub use target::Target;
pub use verdict::judge;
