//! Malformed input ends the agent in an orderly way.

mod common;

use std::{
    io::{Read, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    process::Stdio,
    time::{Duration, Instant},
};

use common::{agent_command, command, settings};
use proptest::prelude::*;
use sandbox_agent::protocol::{
    ExecRequest, FrameKind, LogRequest, Setup, TerminalSize, encode_message,
};

/// Sends bytes to a new agent and closes the sending direction. Returns the exit code and stderr.
fn send(arguments: &[&str], bytes: &[u8]) -> (Option<i32>, String) {
    let (mut socket, agent_socket) = UnixStream::pair().unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let mut command = agent_command(&[], Some(agent_socket.as_raw_fd()), &[]);
    command
        .args(["serve", "--fd", "42"])
        .args(arguments)
        .stderr(Stdio::piped());
    let mut agent = command.spawn().unwrap();
    drop(agent_socket);
    // The agent may exit before it has read everything.
    let _ = socket.write_all(bytes);
    let _ = socket.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    let start = Instant::now();
    let status = loop {
        if let Some(status) = agent.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > Duration::from_secs(15) {
            agent.kill().unwrap();
            panic!("the agent hangs");
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let mut stderr = String::new();
    agent
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    (status.code(), stderr)
}

fn hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_message(&mut bytes, 0, FrameKind::Hello, &settings().encode());
    bytes
}

/// A valid conversation.
fn conversation() -> Vec<u8> {
    let mut bytes = hello();
    let mut request = command(&["cat"]);
    request.stdin = true;
    request.timeout_ms = 2000;
    encode_message(&mut bytes, 1, FrameKind::Exec, &request.encode());
    encode_message(&mut bytes, 1, FrameKind::Stdin, b"some input");
    encode_message(&mut bytes, 0, FrameKind::Ping, b"ping");
    encode_message(&mut bytes, 1, FrameKind::Credit, &[1, 0, 1, 0, 0]);
    encode_message(&mut bytes, 1, FrameKind::Signal, &15u32.to_le_bytes());
    let logs = LogRequest {
        tail: 100,
        follow: false,
    };
    encode_message(&mut bytes, 2, FrameKind::Logs, &logs.encode());
    encode_message(&mut bytes, 3, FrameKind::Dial, &[1, 0]);
    encode_message(&mut bytes, 3, FrameKind::Stdin, b"bytes");
    encode_message(&mut bytes, 1, FrameKind::StdinEnd, &[]);
    encode_message(&mut bytes, 1, FrameKind::Kill, &[]);
    encode_message(&mut bytes, 0, FrameKind::Stop, &10u32.to_le_bytes());
    bytes
}

#[test]
fn valid_conversation_exits_cleanly() {
    assert_eq!(send(&[], &conversation()), (Some(0), String::new()));
    assert_eq!(send(&[], &hello()), (Some(0), String::new()));
}

#[test]
fn empty_input_is_a_protocol_error() {
    assert_eq!(send(&[], &[]), (Some(70), String::new()));
    assert_eq!(send(&["--setup"], &[]), (Some(70), String::new()));
    assert_eq!(send(&["--setup"], &hello()), (Some(70), String::new()));
    let mut bytes = Vec::new();
    encode_message(&mut bytes, 0, FrameKind::Setup, &Setup::default().encode());
    assert_eq!(send(&["--setup"], &bytes), (Some(70), String::new()));
    bytes.extend(conversation());
    assert_eq!(send(&["--setup"], &bytes), (Some(0), String::new()));
}

#[test]
fn size_without_a_terminal_is_a_protocol_error() {
    let size = TerminalSize {
        rows: 1,
        columns: 1,
    };
    for terminal in [None, Some(size)] {
        let request = ExecRequest {
            terminal,
            ..command(&["true"])
        };
        let mut bytes = hello();
        encode_message(&mut bytes, 1, FrameKind::Exec, &request.encode());
        encode_message(&mut bytes, 1, FrameKind::Resize, &size.encode());
        let code = if terminal.is_some() { 0 } else { 70 };
        assert_eq!(send(&[], &bytes).0, Some(code));
    }
}

#[test]
fn wrong_command_line_prints_the_usage() {
    for arguments in [&[][..], &["serve"], &["other"], &["serve", "--fd", "x"]] {
        let output = agent_command(&[], None, &[])
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(64));
        assert!(
            String::from_utf8(output.stderr)
                .unwrap()
                .starts_with("usage: ")
        );
    }
    let output = agent_command(&[], None, &[])
        .args(["serve", "--fd", "99"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(71));
    let output = agent_command(&[], None, &[])
        .arg("--version")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let version = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        version,
        format!(
            "sandbox-agent {} (protocol {})\n",
            env!("CARGO_PKG_VERSION"),
            sandbox_agent::protocol::VERSION
        )
    );
}

#[test]
fn agent_serves_over_two_pipes() {
    let mut agent = agent_command(&[], None, &[])
        .args(["serve", "--stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut bytes = hello();
    encode_message(
        &mut bytes,
        1,
        FrameKind::Exec,
        &command(&["echo", "over pipes"]).encode(),
    );
    agent.stdin.as_mut().unwrap().write_all(&bytes).unwrap();
    let mut stdout = agent.stdout.take().unwrap();
    let mut answer = Vec::new();
    while !answer.windows(11).any(|window| window == b"over pipes\n") {
        let mut chunk = [0; 1000];
        let count = stdout.read(&mut chunk).unwrap();
        assert!(count > 0);
        answer.extend_from_slice(&chunk[..count]);
    }
    drop(agent.stdin.take());
    assert_eq!(agent.wait().unwrap().code(), Some(0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_end_the_agent_cleanly(bytes in proptest::collection::vec(any::<u8>(), 1..2000)) {
        prop_assert_eq!(send(&[], &bytes), (Some(70), String::new()));
        prop_assert_eq!(send(&["--setup"], &bytes), (Some(70), String::new()));
    }

    #[test]
    fn random_bytes_after_hello_end_the_agent_cleanly(bytes in proptest::collection::vec(any::<u8>(), 1..2000)) {
        let (code, stderr) = send(&[], &[hello(), bytes].concat());
        prop_assert!(matches!(code, Some(0 | 70)), "{code:?}");
        prop_assert_eq!(stderr, "");
    }

    #[test]
    fn mutated_conversations_end_the_agent_cleanly(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut bytes = conversation();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let (code, stderr) = send(&[], &bytes);
        prop_assert!(matches!(code, Some(0 | 70 | 71)), "{code:?}");
        prop_assert_eq!(stderr, "");
        let bytes = conversation();
        let (code, stderr) = send(&[], &bytes[..cut.index(bytes.len())]);
        prop_assert!(matches!(code, Some(0 | 70)), "{code:?}");
        prop_assert_eq!(stderr, "");
    }
}
