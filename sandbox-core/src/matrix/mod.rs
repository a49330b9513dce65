//! The compatibility matrix: which tier enforces which capability, derived from what was measured and never written by hand.
//!
//! The conformance suite leaves one [`Profile`] for each tier and kind of host. A [`Cell`] is computed out of a profile's
//! observations every time it is asked for; it is stored nowhere.

mod block;
mod cell;
mod profile;
mod subject;
mod table;
mod verdict;

pub use block::{BEGIN, BlockError, END, replace_block};
pub use cell::{Cell, CellState};
pub use profile::{Observation, Profile, ProfileKey};
pub use subject::{Feature, Subject};
pub use table::CompatibilityMatrix;
pub use verdict::Verdict;
