//! Compiles the agent.

use sandbox_freestanding::build::{StaticProgram, compile_or_exit};

fn main() {
    compile_or_exit(&StaticProgram::new("sandbox-agent", "src/program_root.rs"));
}
