//! What code means, as far as its syntax says: which modules it loads, and what it uses.

mod dialect;
mod found;
mod languages;
mod names;
mod text;
mod tree;

pub(crate) use dialect::Dialect;
pub(crate) use found::{Found, Import, Wanted, facts};
pub(crate) use languages::dialect;
pub(crate) use tree::{Deadline, parse};
