//! The server's process: its options, its output and its end.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::client::SOON;
use crate::common::{
    self, exit_code, processes_with, program, run_text, unique_seconds, wait_until,
};

/// A server with a client on its standard input and output.
struct McpProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl McpProcess {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(program());
        command.arg("mcp").args(arguments);
        Self::spawn(&mut command)
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut server = Self {
            child,
            stdin,
            stdout,
        };
        server.send(&json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" },
            },
        }));
        assert_eq!(server.receive()["result"]["serverInfo"]["name"], "sandbox");
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        server
    }

    fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{message}").unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn send_call(&mut self, tool: &str, arguments: &Value) {
        let params = json!({ "name": tool, "arguments": arguments });
        self.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params }));
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.send_call(tool, arguments);
        self.receive()["result"].take()
    }

    /// Starts processes in a named sandbox and in one of their own. Returns when they run.
    fn start_processes(&mut self) -> String {
        let marker = unique_seconds();
        let script = format!("trap '' TERM HUP INT; setsid sleep {marker} & sleep {marker}; wait");
        self.call("sandbox_create", &json!({ "name": "lab" }));
        self.send_call(
            "sandbox_exec",
            &json!({ "sandbox": "lab", "command": script }),
        );
        self.send_call("run_code", &json!({ "language": "sh", "code": script }));
        wait_until("the processes run", SOON, || {
            processes_with(&marker).len() >= 4
        });
        marker
    }
}

pub fn output_is_only_the_protocol() {
    let mut server = McpProcess::start(&["--verbose"]);
    let code = json!({ "language": "sh", "code": "echo out; echo err >&2" });
    let result = server.call("run_code", &code);
    assert_eq!(result["structuredContent"]["stdout"]["text"], "out\n");
    server.stdin = None;
    assert_eq!(exit_code(&mut server.child, SOON), Some(0));
    let mut rest = String::new();
    server.stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    let mut events = String::new();
    let mut stderr = server.child.stderr.take().unwrap();
    stderr.read_to_string(&mut events).unwrap();
    assert!(!events.contains("jsonrpc"), "{events}");
}

pub fn killed_server_leaves_no_process_and_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program());
    let mut server = McpProcess::spawn(command.arg("mcp").env("TMPDIR", folder.path()));
    let code = "mkdir -p /output; echo 1 > /output/file";
    let result = server.call("run_code", &json!({ "language": "sh", "code": code }));
    let artifacts = &result["structuredContent"]["artifacts"];
    assert_eq!(artifacts.as_array().unwrap().len(), 1, "{result}");
    let marker = server.start_processes();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    wait_until("the processes end", SOON, || {
        processes_with(&marker).is_empty()
    });
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

pub fn closed_input_and_signals_end_the_processes() {
    for signal in [None, Some("-TERM"), Some("-INT")] {
        let mut server = McpProcess::start(&[]);
        let marker = server.start_processes();
        let expected = match signal {
            None => {
                server.stdin = None;
                0
            }
            Some(signal) => {
                common::signal(&server.child, signal);
                if signal == "-TERM" { 143 } else { 130 }
            }
        };
        assert_eq!(exit_code(&mut server.child, SOON), Some(expected));
        wait_until("the processes end", SOON, || {
            processes_with(&marker).is_empty()
        });
    }
}

pub fn options_and_policy_file_are_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    std::fs::write(&policy, "version = 1\ntimeout = 5\n").unwrap();
    let mut server = McpProcess::start(&[
        "--policy",
        policy.to_str().unwrap(),
        "--timeout",
        "4s",
        "--artifact",
        "/output/*.csv",
    ]);
    let code = json!({ "language": "sh", "code": "true", "timeout_seconds": 4.5 });
    let error = server.call("run_code", &code);
    assert_eq!(error["isError"], true, "{error}");
    let read = json!({ "uri": "sandbox://policy" });
    server.send(&json!({ "jsonrpc": "2.0", "id": 3, "method": "resources/read", "params": read }));
    let read = server.receive();
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    let document: Value = serde_json::from_str(text).unwrap();
    assert_eq!(document["timeout_seconds"], 4.0);
    let exported = &document["policy"]["artifact_export_paths"];
    assert_eq!(*exported, json!(["/output/*.csv"]));
}

pub fn wrong_options_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "short\n").unwrap();
    let file = file.to_str().unwrap();
    for (arguments, says) in [
        (
            &["--http", "0.0.0.0:0"][..],
            "reachable from other machines",
        ),
        (&["--http", "localhost"], "invalid socket address"),
        (
            &["--http", "127.0.0.1:0", "--token-file", file],
            "at least 16",
        ),
        (
            &["--http", "127.0.0.1:0", "--token-file", "/missing"],
            "/missing",
        ),
        (&["--token-file", file], "--http"),
        (&["-b", "nothing"], "nothing"),
    ] {
        let (code, stdout, stderr) = run_text([&["mcp"], arguments].concat());
        assert_eq!((code, stdout.as_str()), (Some(125), ""), "{stderr}");
        assert!(stderr.contains(says), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

pub fn new_token_is_printed_and_a_given_one_is_not() {
    for given in [None, Some("0123456789abcdef-given")] {
        let mut command = Command::new(program());
        command
            .args(["mcp", "--http", "127.0.0.1:0"])
            .env_remove("SANDBOX_MCP_TOKEN")
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        if let Some(token) = given {
            command.env("SANDBOX_MCP_TOKEN", token);
        }
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        assert!(
            first.starts_with("sandbox: serving http://127.0.0.1:"),
            "{first}"
        );
        if given.is_none() {
            let second = lines.next().unwrap().unwrap();
            assert!(second.contains("Authorization: Bearer "), "{second}");
        }
        common::signal(&child, "-TERM");
        assert_eq!(exit_code(&mut child, SOON), Some(143));
        let rest = lines.map(Result::unwrap).collect::<String>();
        assert!(!rest.contains("Bearer"), "{rest}");
    }
}
