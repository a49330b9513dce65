//! `sandbox mcp` with official clients of the protocol, where they are installed.

mod common;

use std::path::PathBuf;
use std::process::ExitCode;

use common::{program, text};
use sandbox_testing::{named_tests, trials};

/// The variable with a Python that has the package `mcp`.
const PYTHON: &str = "SANDBOX_TEST_MCP_PYTHON";

fn main() -> ExitCode {
    let missing = std::env::var_os(PYTHON).is_none();
    let missing = missing.then_some("needs SANDBOX_TEST_MCP_PYTHON, a Python with the package mcp");
    trials::main(&[(missing, named_tests![python_client_is_content])])
}

fn python_client_is_content() {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let package = package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let python = std::env::var_os(PYTHON).unwrap();
    let output = assert_cmd::Command::new(python)
        .arg(package.join("tests/mcp_client.py"))
        .arg(program())
        .timeout(std::time::Duration::from_secs(120))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}
