//! Sandboxes in containers that somebody else has made: the agent runs beside the container's own processes, and its end is the end of
//! its stream, never the container's.

mod cut;
mod isolator;
mod report;

pub use cut::{Cut, CutStream};
pub use isolator::{AdoptedIsolator, ForeignAgent};
pub use report::entry;
