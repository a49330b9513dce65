//! What every probe needs.

pub use sandbox_core::matrix::{Feature, Subject};
pub use sandbox_core::{ByteSize, Capability, Cpus, Outcome};

pub use super::shapes::{
    GONE, behavior, control, found_below, kernel_call, limit, plain, reach, reach_address, rooted,
    rooted_if_taken, same_call,
};
pub use super::signs;
pub use crate::evidence::{Attempt, Step};
pub use crate::grounds::Grounds;
pub use crate::host;
pub use crate::listeners::Listener;
pub use crate::probe::{Denial, Kind, Probe, Setting, Trouble};
pub use crate::program::{Call, ITSELF};
pub use crate::stage::Stage;
