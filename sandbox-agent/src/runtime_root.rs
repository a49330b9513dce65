//! The root of the crate `runtime`, which the build helper links into freestanding programs.
//!
//! A separate crate, so that the compiler does not inline the runtime into a program: programs
//! would be about a tenth larger.
#![no_std]

extern crate alloc;

mod runtime;

pub use runtime::*;
