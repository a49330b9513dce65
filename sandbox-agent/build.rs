//! Compiles the agent.

#[path = "src/runtime/build.rs"]
mod build;

use build::{StaticProgram, compile_or_exit};

fn main() {
    let program = StaticProgram::new("sandbox-agent", "src/program_root.rs");
    compile_or_exit(&program, "src");
}
