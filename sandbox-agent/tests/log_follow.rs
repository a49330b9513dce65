//! Following the log.

mod common;

use std::time::{Duration, Instant};

use common::{
    FirstClient, TestStream,
    listening::{detached, follow},
    script,
};
use sandbox_agent::protocol::{AgentSettings, Channel, ExecRequest, ExitKind, FrameKind};

fn logged(text: &str) -> ExecRequest {
    ExecRequest {
        log: true,
        ..script(text)
    }
}

/// The next `count` bytes of a log.
#[track_caller]
fn log_bytes(wire: &mut TestStream, stream: u32, count: usize) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < count {
        let message = wire.wait(stream);
        assert_eq!(message.kind, FrameKind::Stdout, "{message:?}");
        wire.grant(stream, Channel::Stdout, message.bytes.len());
        bytes.extend(message.bytes);
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn followed_log_sends_new_output() {
    let (mut first, address) = FirstClient::listen(&detached());
    first.run(&logged("echo long; echo before"));
    let mut second = address.attach(&detached());
    let all = follow(&mut second, u32::MAX);
    let tail = follow(&mut second, 1);
    let from_now = follow(&mut second, 0);
    assert_eq!(log_bytes(&mut second, all, 12), "long\nbefore\n");
    assert_eq!(log_bytes(&mut second, tail, 7), "before\n");
    let stream = first.exec(&logged("echo one; sleep 0.3; echo two >&2; sleep 0.3"));
    for followed in [all, tail, from_now] {
        assert_eq!(log_bytes(&mut second, followed, 8), "one\ntwo\n");
    }
    // The lines arrived while the program was running.
    assert_eq!(first.wait_end(stream).kind, ExitKind::Exited(0));
    second.send(tail, FrameKind::Kill, &[]);
    assert_eq!(second.wait_end(tail).kind, ExitKind::Killed);
    first.run(&logged("echo three"));
    assert_eq!(log_bytes(&mut second, all, 6), "three\n");
    // Output until the end of a stop is still sent.
    let stream = first.exec(&logged(
        "trap 'echo last; exit' TERM; sleep 100 & echo up; wait",
    ));
    assert_eq!(first.wait(stream).kind, FrameKind::Started);
    assert_eq!(first.wait(stream).bytes, b"up\n");
    second.send(0, FrameKind::Stop, &5000u32.to_le_bytes());
    assert_eq!(log_bytes(&mut second, all, 8), "up\nlast\n");
    assert_eq!(second.wait_end(all).kind, ExitKind::Exited(0));
    assert_eq!(log_bytes(&mut second, from_now, 14), "three\nup\nlast\n");
    assert_eq!(second.wait_end(from_now).kind, ExitKind::Exited(0));
    assert_eq!(second.wait(0).kind, FrameKind::Stopped);
    assert_eq!(first.agent_end().code(), Some(0));
}

#[test]
fn slow_log_reader_gets_the_number_of_overwritten_bytes() {
    let settings = AgentSettings {
        log_bytes: 300_000,
        ..detached()
    };
    let (mut first, address) = FirstClient::listen(&settings);
    let mut second = address.attach(&settings);
    let stream = follow(&mut second, 0);
    second.ping();
    // The agent sends one window, then lacks credit while the log is overwritten.
    let outcome = first.run(&logged("head -c 1000000 /dev/zero | tr '\\0' a; echo end"));
    assert_eq!(outcome.kind(), ExitKind::Exited(0));
    let (mut bytes, mut notice) = (Vec::new(), String::new());
    while !bytes.ends_with(b"end\n") {
        let message = second.wait(stream);
        let length = message.bytes.len();
        if message.kind == FrameKind::Stderr {
            notice.push_str(std::str::from_utf8(&message.bytes).unwrap());
        } else {
            second.grant(stream, Channel::Stdout, length);
            bytes.extend(message.bytes);
        }
    }
    let lost: usize = notice
        .lines()
        .map(|line| {
            line[1..]
                .split(' ')
                .next()
                .unwrap()
                .parse::<usize>()
                .unwrap()
        })
        .sum();
    assert!(notice.ends_with("bytes of the log were overwritten before they were read]\n"));
    assert_eq!(lost + bytes.len(), 1_000_004);
    second.send(stream, FrameKind::Kill, &[]);
    let report = second.wait_end(stream);
    assert!(report.drain_cut, "{report:?}");
    assert_eq!(report.stdout_total, bytes.len() as u64);
    assert_eq!(report.stderr_total, notice.len() as u64);
}

#[test]
fn stop_does_not_wait_for_a_client_that_does_not_read() {
    let settings = AgentSettings {
        log_bytes: 4 << 20,
        ..detached()
    };
    let (mut first, address) = FirstClient::listen(&settings);
    first.run(&logged("head -c 4000000 /dev/zero"));
    let mut idle = address.attach(&settings);
    follow(&mut idle, u32::MAX);
    first.ping();
    let start = Instant::now();
    first.send(0, FrameKind::Stop, &0u32.to_le_bytes());
    assert_eq!(first.wait(0).kind, FrameKind::Stopped);
    assert_eq!(first.agent_end().code(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(8));
}
