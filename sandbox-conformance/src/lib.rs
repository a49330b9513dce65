//! The conformance suite. It attacks a backend, checks that the attacks fail, and records why that
//! result can be trusted.
//!
//! A [`Probe`] is an attack with its controls. The same attack must succeed without a sandbox. What
//! the policy permits must succeed inside the sandbox. The host must be unchanged afterwards, and a
//! known mechanism must explain the denial. [`judge`] turns this evidence into one [`Verdict`].
//! Attacks run from a static program of the suite, so a missing tool cannot look like a denied
//! attack.
//!
//! ```no_run
//! # async fn example() -> Result<(), sandbox_conformance::ProbeError> {
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
mod capacity;
mod context;
mod egress_server;
mod engine_api;
mod evidence;
mod finding;
mod foreign;
pub mod host;
mod host_cgroups;
pub mod host_fixture;
mod host_leftovers;
pub mod known_leaks;
pub mod leftovers;
pub mod listeners;
mod name_server;
pub mod pool;
mod probe;
pub mod probes;
pub mod profiles;
pub mod program;
pub mod reaper;
pub mod report;
mod runner;
pub mod selfcheck;
pub mod startup;
pub mod suite;
mod target;
mod tightened;
pub mod traces;
#[cfg(feature = "trials")]
pub mod trials;
mod verdict;
mod warm_pods;
mod wheel;

// Links the backends that the features choose.
use sandbox as _;

pub use capacity::Capacity;
pub use context::ProbeContext;
pub use evidence::{Attempt, Evidence, HostCheck, Step};
pub use finding::{ClaimStatus, Finding, Repetition, Report};
pub use probe::{ExpectedDenial, Probe, ProbeError, ProbeKind, SandboxSetup};
pub use runner::{CREATIONS, Options, ProgressCallback, REPETITIONS, repeat, run};
pub use sandbox_core::matrix::Verdict;
pub use target::Target;
pub use verdict::judge;
