//! The root of the freestanding program that the build script compiles.
#![no_std]
#![no_main]
// The host's half of the protocol is not used here, and the tests are compiled elsewhere.
#![allow(dead_code, unused_imports, unexpected_cfgs)]

extern crate alloc;

mod program;
mod protocol;

sandbox_freestanding::entry!(program::main);
