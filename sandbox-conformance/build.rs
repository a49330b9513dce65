//! Compiles the probe program.

// A dependency of the build script would compile the agent a second time.
#[path = "../sandbox-agent/src/runtime/build.rs"]
mod build;

use build::{StaticProgram, compile_or_exit};

fn main() {
    let program = StaticProgram::new("probe", "program/main.rs");
    compile_or_exit(&program, "program");
}
