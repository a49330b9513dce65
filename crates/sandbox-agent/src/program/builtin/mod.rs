//! Routines.
use crate::protocol::{Builtin, Failure};
use super::failing::refusal;
use crate::protocol::FailStep;
/// The exit code of a routine that ended because its execution was being killed.
pub(super) const ABANDONED: u8 = 3;
pub(super) fn run(_routine: &Builtin, _complete: Option<i32>) -> Result<(), Failure> {
    Err(refusal(FailStep::File, "not yet"))
}
