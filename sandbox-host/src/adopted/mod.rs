//! Sandboxes in foreign containers: the agent runs beside the container's own processes, and ends
//! with its stream while the container goes on.

mod cut;
mod installed;
mod isolator;
mod report;
mod sandbox;

pub use cut::{ClosableStream, Cut};
pub use installed::{ForeignProgram, InstalledAgent};
pub use isolator::{AdoptedIsolator, ForeignAgent};
pub use report::entry;
pub use sandbox::{confinement, sandbox};
