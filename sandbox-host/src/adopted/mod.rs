//! Sandboxes in foreign containers: the agent runs beside the container's own processes, and ends
//! with its stream while the container goes on.

mod cut;
mod isolator;
mod report;

pub use cut::{ClosableStream, Cut};
pub use isolator::{AdoptedIsolator, ForeignAgent};
pub use report::entry;
