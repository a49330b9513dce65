//! Compiles the probe program.

use sandbox_freestanding::build::{StaticProgram, compile_or_exit};

fn main() {
    compile_or_exit(&StaticProgram::new("probe", "program/main.rs"));
}
