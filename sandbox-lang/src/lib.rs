//! What sandboxes need for a language: so far, Python's packages.

pub mod packages;
