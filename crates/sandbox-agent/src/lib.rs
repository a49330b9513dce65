//! The one static program that runs as the first process of every sandbox, and its protocol.
#![no_std]

extern crate alloc;

pub mod protocol;
