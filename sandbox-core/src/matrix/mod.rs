//! The compatibility matrix: which tier enforces which capability, as measured by the conformance
//! suite.
//!
//! The suite writes one [`Profile`] for each tier and kind of host. A [`Cell`] is computed from the
//! observations of a profile on each request and never stored.

mod block;
mod cell;
mod profile;
mod subject;
mod summary;
mod table;
mod verdict;

pub use block::{BEGIN, BlockError, END, replace_block};
pub use cell::{Cell, CellState};
pub use profile::{Observation, Profile, ProfileKey};
pub use subject::{Feature, Subject};
pub use table::CompatibilityMatrix;
pub use verdict::Verdict;
