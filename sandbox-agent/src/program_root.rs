//! The root of the freestanding program that the build script compiles.
#![no_std]
#![no_main]
// The client's half of the protocol is not used here, and the tests are compiled elsewhere.
#![allow(dead_code, unused_imports, unexpected_cfgs)]

extern crate alloc;
extern crate runtime;

mod program;
mod protocol;

runtime::entry!(program::main);
