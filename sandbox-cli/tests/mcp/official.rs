//! `sandbox mcp` with official clients of the protocol and its conformance runner, where they are
//! installed.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::{program, text};

/// The variable with a Python that has the package `mcp`.
const PYTHON: &str = "SANDBOX_TEST_MCP_PYTHON";

/// The variable with a folder whose `node_modules` has `@modelcontextprotocol/sdk` and
/// `@modelcontextprotocol/conformance`.
const PACKAGES: &str = "SANDBOX_TEST_MCP_PACKAGES";

/// The variable with the folder of a Node.js 22 or newer.
const NODE: &str = "SANDBOX_TEST_NODE";

/// The scenarios of the runner for servers of any kind. The others call tools that a server has only
/// for the runner.
const SCENARIOS: [&str; 6] = [
    "dns-rebinding-protection",
    "ping",
    "resources-list",
    "server-initialize",
    "server-sse-multiple-streams",
    "tools-list",
];

const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Why the official Python client cannot run here; `None` if it can.
pub fn missing_python() -> Option<&'static str> {
    is_missing(PYTHON).then_some("needs SANDBOX_TEST_MCP_PYTHON, a Python with the package mcp")
}

/// Why the programs for Node.js cannot run here; `None` if they can.
pub fn missing_node() -> Option<&'static str> {
    (is_missing(NODE) || is_missing(PACKAGES)).then_some(
        "needs SANDBOX_TEST_NODE and SANDBOX_TEST_MCP_PACKAGES, with the SDK and the runner",
    )
}

fn is_missing(name: &str) -> bool {
    std::env::var_os(name).is_none()
}

fn script(name: &str) -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let package = package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    package.join("tests/mcp").join(name)
}

fn folder(name: &str) -> PathBuf {
    std::env::var_os(name).unwrap().into()
}

fn succeeds(program: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) {
    let mut command = assert_cmd::Command::new(program);
    let output = command
        .args(arguments)
        .timeout(TIME_LIMIT)
        .output()
        .unwrap();
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{errors}");
}

pub fn python_client_is_content() {
    succeeds(&folder(PYTHON), [script("official_client.py"), program()]);
}

pub fn typescript_client_is_content() {
    let arguments = [script("official_client.mjs"), program(), folder(PACKAGES)];
    succeeds(&folder(NODE).join("node"), arguments);
}

/// A process that ends with the test.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn conformance_runner_finds_no_fault() {
    let mut server = Command::new(program());
    server.args(["mcp", "--http", "127.0.0.1:0"]);
    let mut server = KilledOnDrop(server.stderr(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(server.0.stderr.take().unwrap()).lines();
    let lines: Vec<String> = lines.take(2).map(Result::unwrap).collect();
    let url = lines[0].split(' ').find(|word| word.starts_with("http://"));
    let token = lines[1].split(' ').next_back();
    let runner =
        folder(PACKAGES).join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    // The runner knows no tokens: the script adds it to each request.
    let mut arguments = vec![script("conformance.mjs"), runner];
    arguments.extend([url.unwrap(), token.unwrap()].map(PathBuf::from));
    arguments.extend(SCENARIOS.map(PathBuf::from));
    succeeds(&folder(NODE).join("node"), arguments);
}
