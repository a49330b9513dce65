//! The items that most probes use.

pub use sandbox_core::{ByteSize, Cpus, Outcome};

pub use super::procedures::{
    Deviation, GONE, behavior, client_feature, control, feature, fits_later, fits_until, flat,
    found_below, if_offered, kernel_call, limit, mounted, mounting, plain, plain_feature, reach,
    reach_address, rooted, rooted_if_supported, same_call,
};
pub use super::signs::{self, denied};
pub use super::subjects::*;
pub use crate::context::ProbeContext;
pub use crate::evidence::{Attempt, Step};
pub use crate::host;
pub use crate::host_fixture::HostFixture;
pub use crate::listeners::Listener;
pub use crate::probe::{ExpectedDenial, Probe, ProbeError, SandboxSetup};
pub use crate::program::{Call, ITSELF};
