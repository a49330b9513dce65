//! Clients that flood, stall, or send malformed bytes.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use proptest::prelude::*;
use sandbox_agent::protocol::{
    AgentSettings, ExecRequest, FailStep, FrameKind, LogRequest, encode_message,
};

use crate::common::{
    FirstClient, TestStream, command,
    listening::{ControlAddress, detached, echo, last_failure},
    processes::{alive, unique_seconds, wait_until},
    settings,
};

#[test]
fn malformed_frames_disconnect_only_their_sender() {
    let (mut first, address) = FirstClient::listen(&detached());
    let mark = unique_seconds();
    let break_it: [&dyn Fn(&mut TestStream); 5] = [
        &|wire| wire.socket.write_all(&[0xff; 100]).unwrap(),
        &|wire| wire.send(0, FrameKind::Hello, &settings().encode()),
        &|wire| wire.send(0, FrameKind::Attach, &[]),
        &|wire| wire.send(1, FrameKind::Exec, &command(&["true"]).encode()),
        &|wire| wire.send(7, FrameKind::Logs, &[1]),
    ];
    for break_it in break_it {
        let mut second = address.attach(&detached());
        let stream = second.exec(&command(&["sleep", &mark]));
        assert_eq!((stream, second.wait(stream).kind), (1, FrameKind::Started));
        break_it(&mut second);
        assert_eq!(last_failure(&mut second).unwrap().step, FailStep::Protocol);
        wait_until("its execution is killed", || alive(&mark) == 0);
        echo(&mut first);
    }
    // The first client is treated alike if the sandbox outlives it.
    let mut second = address.attach(&detached());
    first.send(0, FrameKind::Hello, &[]);
    assert_eq!(last_failure(&mut first).unwrap().step, FailStep::Protocol);
    echo(&mut second);
    second.send(0, FrameKind::Stop, &0u32.to_le_bytes());
    assert_eq!(first.agent_end().code(), Some(0));
}

#[test]
fn flooding_or_stalled_client_is_disconnected() {
    let settings = AgentSettings {
        lease_ms: 2000,
        ..detached()
    };
    let (mut first, address) = FirstClient::listen(&settings);
    let mut bytes = Vec::new();
    encode_message(&mut bytes, 0, FrameKind::Ping, &[7; 60_000]);
    // Sends requests and never reads the answers.
    let flood = address.attach(&settings);
    flood.socket.set_nonblocking(true).unwrap();
    // Stalls in the middle of a frame.
    let mut stall = address.attach(&settings);
    stall.socket.write_all(&bytes[..1000]).unwrap();
    let start = Instant::now();
    let mut taken = 0u64;
    let mut cut = false;
    while start.elapsed() < Duration::from_secs(8) && !cut {
        match (&flood.socket).write(&bytes) {
            Ok(count) => taken += count as u64,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(_) => cut = true,
        }
        assert!(first.ping() < Duration::from_secs(3));
    }
    assert!(cut, "the flood was not cut off");
    assert!(taken < 16 << 20, "{taken}");
    assert_eq!(
        last_failure(&mut stall).unwrap().detail,
        "silent for too long"
    );
    echo(&mut first);
    echo(&mut address.attach(&settings));
}

/// Sends bytes as a client, with the key or without it, until the agent disconnects.
fn send_garbage(address: &ControlAddress, known: bool, bytes: &[u8]) {
    let mut wire = address.connect();
    if known {
        wire.attach(&settings().key).unwrap();
    }
    // The agent may disconnect before it has read everything.
    let _ = wire.socket.write_all(bytes);
    let _ = wire.socket.shutdown(std::net::Shutdown::Write);
    last_failure(&mut wire);
}

#[test]
fn random_bytes_of_a_later_client_do_not_harm_the_agent() {
    let (first, address) = FirstClient::listen(&detached());
    let first = std::cell::RefCell::new(first);
    let conversation = {
        let mut bytes = Vec::new();
        let request = ExecRequest {
            stdin: true,
            timeout_ms: 500,
            ..command(&["cat"])
        };
        encode_message(&mut bytes, 1, FrameKind::Exec, &request.encode());
        encode_message(&mut bytes, 1, FrameKind::Stdin, b"some input");
        encode_message(&mut bytes, 0, FrameKind::Ping, b"ping");
        encode_message(&mut bytes, 1, FrameKind::Credit, &[1, 0, 1, 0, 0]);
        let logs = LogRequest {
            tail: 9,
            follow: true,
        };
        encode_message(&mut bytes, 2, FrameKind::Logs, &logs.encode());
        encode_message(&mut bytes, 1, FrameKind::StdinEnd, &[]);
        bytes
    };
    let config = ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let input = (
        proptest::collection::vec(any::<u8>(), 1..2000),
        any::<prop::sample::Index>(),
        any::<u8>(),
        any::<prop::sample::Index>(),
    );
    proptest!(config, |((bytes, at, byte, cut) in input)| {
        send_garbage(&address, false, &bytes);
        send_garbage(&address, true, &bytes);
        // This byte would turn a frame into a valid request to stop.
        prop_assume!(byte != FrameKind::Stop as u8);
        let mut mutated = conversation.clone();
        let at = at.index(mutated.len());
        mutated[at] = byte;
        send_garbage(&address, true, &mutated);
        send_garbage(&address, true, &conversation[..cut.index(conversation.len())]);
        first.borrow_mut().ping();
    });
    echo(&mut first.borrow_mut());
}
