//! Several clients of one agent.

mod common;
#[path = "clients/hostile.rs"]
mod hostile;

use std::{
    io::Write,
    time::{Duration, Instant},
};

use common::{
    FirstClient, TestStream, command,
    listening::{detached, echo, follow, last_failure},
    processes::{alive, unique_seconds, wait_until},
    script, settings,
};
use sandbox_agent::protocol::{
    AgentSettings, Attach, ClientKey, ExecRequest, ExitKind, FailStep, FrameKind, MAX_CLIENTS,
    VERSION, encode_message,
};

#[test]
fn stream_numbers_are_separate_for_each_client() {
    let (mut first, address) = FirstClient::listen(&detached());
    let mut second = address.attach(&detached());
    let request = |client: usize, number: usize| {
        let code = (number * 2 + client) % 200;
        script(&format!(
            "echo {client}.{number}; head -c 20000 /dev/zero | tr '\\0' {client}; echo e{client}.{number} >&2; exit {code}"
        ))
    };
    let streams: Vec<_> = (0..50)
        .map(|number| {
            let one = first.exec(&request(1, number));
            let other = second.exec(&request(2, number));
            assert_eq!(one, other);
            one
        })
        .collect();
    for (number, stream) in streams.into_iter().enumerate() {
        let check = |wire: &mut TestStream, client: usize| {
            let outcome = wire.finish(stream);
            let expected = format!("{client}.{number}\n{}", client.to_string().repeat(20_000));
            assert!(outcome.text() == expected);
            assert_eq!(outcome.stderr, format!("e{client}.{number}\n").as_bytes());
            let code = u8::try_from((number * 2 + client) % 200).unwrap();
            assert_eq!(outcome.kind(), ExitKind::Exited(code));
        };
        check(&mut second, 2);
        check(&mut first, 1);
    }
    // A frame for another client's stream has no effect.
    let stream = first.exec(&command(&["sleep", "0.5"]));
    second.send(stream, FrameKind::Kill, &[]);
    second.ping();
    assert_eq!(first.finish(stream).kind(), ExitKind::Exited(0));
}

#[test]
fn first_client_owns_the_sandbox_until_hand_over() {
    let settings = AgentSettings {
        detached_after_attach: true,
        lease_ms: 500,
        ..settings()
    };
    // No other client attached: the sandbox ends with its owner.
    let (first, address) = FirstClient::listen(&settings);
    let mut wrong = address.connect();
    assert!(wrong.attach(&ClientKey::new([0; 32])).is_err());
    let TestStream { socket, .. } = &*first;
    socket.shutdown(std::net::Shutdown::Both).unwrap();
    let mut first = first;
    assert_eq!(first.agent_end().code(), Some(0));

    let (mut first, address) = FirstClient::listen(&settings);
    first.set_owned(false);
    let mut second = address.attach(&settings);
    let mark = unique_seconds();
    let stream = first.exec(&command(&["sleep", &mark]));
    assert_eq!(first.wait(stream).kind, FrameKind::Started);
    first.socket.shutdown(std::net::Shutdown::Both).unwrap();
    wait_until("its executions end", || alive(&mark) == 0);
    echo(&mut second);
    drop(second);
    // Longer than the lease.
    std::thread::sleep(Duration::from_millis(1000));
    let mut third = address.attach(&settings);
    echo(&mut third);
    third.send(0, FrameKind::Stop, &0u32.to_le_bytes());
    assert_eq!(first.agent_end().code(), Some(0));
}

#[test]
fn client_with_a_wrong_key_is_refused() {
    let (mut first, address) = FirstClient::listen(&detached());
    let attach = Attach {
        key: settings().key,
    };
    let good = attach.encode();
    let frame = |kind: FrameKind, message: &[u8]| {
        let mut bytes = Vec::new();
        encode_message(&mut bytes, 0, kind, message);
        bytes
    };
    let mut wrong = good.clone();
    wrong[20] ^= 1;
    let mut other_version = good.clone();
    let other = VERSION + 1;
    other_version[..2].copy_from_slice(&other.to_le_bytes());
    let other_stream = {
        let mut bytes = Vec::new();
        encode_message(&mut bytes, 1, FrameKind::Attach, &good);
        bytes
    };
    let started = std::env::temp_dir().join(format!("sandbox-agent-{}", std::process::id()));
    let exec = {
        let mut bytes = Vec::new();
        let request = command(&["touch", started.to_str().unwrap()]);
        encode_message(&mut bytes, 1, FrameKind::Exec, &request.encode());
        bytes
    };
    let version = format!("protocol version {other}, expected {VERSION}");
    let cases: [(Vec<u8>, FailStep, &str); 9] = [
        (
            frame(FrameKind::Attach, &wrong),
            FailStep::Attach,
            "wrong key",
        ),
        (
            [frame(FrameKind::Attach, &wrong), exec.clone()].concat(),
            FailStep::Attach,
            "wrong key",
        ),
        (exec, FailStep::Protocol, "unexpected first message"),
        (
            frame(FrameKind::Hello, &settings().encode()),
            FailStep::Protocol,
            "unexpected first message",
        ),
        (other_stream, FailStep::Protocol, "unexpected first message"),
        (
            frame(FrameKind::Attach, &other_version),
            FailStep::Protocol,
            &version,
        ),
        (
            frame(FrameKind::Attach, &[&good[..], &[0]].concat()),
            FailStep::Protocol,
            "bytes after the last field of a message",
        ),
        (
            frame(FrameKind::Attach, &good[..37]),
            FailStep::Protocol,
            "message ends in the middle of a field",
        ),
        (
            vec![0xff; 50],
            FailStep::Protocol,
            "value out of range in flags",
        ),
    ];
    for (bytes, step, detail) in cases {
        let mut wire = address.connect();
        wire.socket.write_all(&bytes).unwrap();
        let failure = last_failure(&mut wire).unwrap();
        assert_eq!((failure.step, failure.detail.as_str()), (step, detail));
    }
    assert!(!started.exists());
    echo(&mut first);
}

#[test]
fn key_may_arrive_in_pieces_but_not_late() {
    let (mut first, address) = FirstClient::listen(&detached());
    let mut silent = address.connect();
    let mut slow = address.connect();
    let mut gone = address.connect();
    let start = Instant::now();
    let mut bytes = Vec::new();
    let attach = Attach {
        key: settings().key,
    };
    encode_message(&mut bytes, 0, FrameKind::Attach, &attach.encode());
    // Half a key, and the rest never arrives.
    gone.socket.write_all(&bytes[..20]).unwrap();
    drop(gone);
    // Bytes directly after the key are not lost.
    encode_message(&mut bytes, 0, FrameKind::Ping, b"ping");
    for byte in &bytes {
        slow.socket.write_all(&[*byte]).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(slow.wait(0).kind, FrameKind::Welcome);
    assert_eq!(slow.wait(0).bytes, b"ping");
    let failure = last_failure(&mut silent).unwrap();
    assert_eq!(
        (failure.step, failure.detail.as_str()),
        (FailStep::Attach, "no key within 3 s")
    );
    let elapsed = start.elapsed();
    assert!(
        elapsed > Duration::from_secs(2) && elapsed < Duration::from_secs(10),
        "{elapsed:?}"
    );
    echo(&mut slow);
    echo(&mut first);
}

#[test]
fn number_of_clients_is_bounded() {
    let (mut first, address) = FirstClient::listen(&detached());
    let mut others: Vec<_> = (1..MAX_CLIENTS)
        .map(|_| address.attach(&detached()))
        .collect();
    let mut late = address.connect();
    let failure = late.attach(&settings().key).unwrap_err();
    assert_eq!(
        (failure.step, failure.detail.as_str()),
        (FailStep::Attach, "too many clients")
    );
    for wire in &mut others {
        echo(wire);
    }
    echo(&mut first);
    drop(others.pop());
    let mut late = None;
    wait_until("a slot is free", || {
        let mut wire = address.connect();
        let welcome = wire.attach(&settings().key);
        late = Some(wire);
        welcome.is_ok()
    });
    echo(&mut late.unwrap());
}

#[test]
fn unauthenticated_connections_displace_no_client() {
    let (_first, address) = FirstClient::listen(&detached());
    let mut idle: Vec<_> = (0..3 * MAX_CLIENTS).map(|_| address.connect()).collect();
    let mut second = address.attach(&detached());
    echo(&mut second);
    // The oldest pending client was displaced.
    let failure = last_failure(&mut idle[0]).unwrap();
    assert_eq!(failure.detail, "too many clients");
}

#[test]
fn disconnected_client_leaves_no_process_and_other_clients_untouched() {
    let (mut first, address) = FirstClient::listen(&detached());
    let mark = unique_seconds();
    let mut second = address.attach(&detached());
    let other = first.exec(&script("sleep 1; echo unharmed"));
    let texts = [
        format!(
            "trap '' TERM HUP; (setsid sleep {mark} &); setsid sleep {mark} & echo up; sleep {mark}"
        ),
        // Writes more output than is read.
        format!("echo up; yes; sleep {mark}"),
    ];
    for text in &texts {
        let stream = second.exec(&script(text));
        assert_eq!(second.wait(stream).kind, FrameKind::Started);
        assert_eq!(second.wait(stream).kind, FrameKind::Stdout);
    }
    // Has ended, except for its unread output.
    let ended = second.exec(&script("head -c 300000 /dev/zero"));
    assert_eq!(second.wait(ended).kind, FrameKind::Started);
    let followed = follow(&mut second, 100);
    assert!(followed > ended);
    wait_until("three processes", || alive(&mark) == 3);
    drop(second);
    wait_until("none is left", || alive(&mark) == 0);
    assert_eq!(first.finish(other).text(), "unharmed\n");
    echo(&mut first);
    echo(&mut address.attach(&detached()));
}

#[test]
fn disconnected_client_leaves_no_partial_file() {
    use sandbox_agent::protocol::Builtin;
    let (mut first, address) = FirstClient::listen(&detached());
    let temp_dir = tempfile::tempdir().unwrap();
    let path = temp_dir.path().join("file");
    let mut second = address.attach(&detached());
    let request = ExecRequest {
        stdin: true,
        ..common::builtin(Builtin::Put {
            path: path.to_str().unwrap().into(),
            mode: 0o644,
        })
    };
    let stream = second.exec(&request);
    second.send(stream, FrameKind::Stdin, b"half");
    assert_eq!(second.wait(stream).kind, FrameKind::Started);
    drop(second);
    wait_until("nothing is left", || {
        std::fs::read_dir(temp_dir.path()).unwrap().next().is_none()
    });
    echo(&mut first);
}

#[test]
fn owner_disconnect_ends_the_sandbox() {
    let (mut first, address) = FirstClient::listen(&settings());
    let mark = unique_seconds();
    let mut second = address.attach(&settings());
    let stream = second.exec(&script(&format!("setsid sleep {mark} & sleep {mark}")));
    assert_eq!(second.wait(stream).kind, FrameKind::Started);
    wait_until("two processes", || alive(&mark) == 2);
    // A later client's disconnect affects only itself.
    drop(address.attach(&settings()));
    echo(&mut first);
    first.socket.shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(first.agent_end().code(), Some(0));
    assert_eq!(alive(&mark), 0);
    last_failure(&mut second);
}

#[test]
fn sandbox_without_owner_outlives_its_first_client() {
    let (first, address) = FirstClient::listen(&detached());
    let mut second = address.attach(&detached());
    let stream = second.exec(&script("sleep 0.5; echo on"));
    first.socket.shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(second.finish(stream).text(), "on\n");
    drop(second);
    // No client is connected, and nothing happens.
    std::thread::sleep(Duration::from_millis(200));
    echo(&mut address.attach(&detached()));
}

#[test]
fn any_client_can_stop_the_sandbox() {
    let (mut first, address) = FirstClient::listen(&detached());
    let mut second = address.attach(&detached());
    let mut third = address.attach(&detached());
    let stream = first.exec(&script(
        "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.02; done",
    ));
    assert_eq!(first.wait(stream).kind, FrameKind::Started);
    assert_eq!(first.wait(stream).bytes, b"up\n");
    // The second request changes nothing.
    second.send(0, FrameKind::Stop, &5000u32.to_le_bytes());
    third.send(0, FrameKind::Stop, &0u32.to_le_bytes());
    let late = third.exec(&command(&["true"]));
    assert_eq!(third.finish(late).failure().step, FailStep::Request);
    assert_eq!(first.wait_end(stream).kind, ExitKind::Exited(7));
    for wire in [&mut *first, &mut second, &mut third] {
        assert_eq!(wire.wait(0).kind, FrameKind::Stopped);
    }
    assert_eq!(first.agent_end().code(), Some(0));
}

#[test]
fn many_short_clients_leak_no_descriptors_or_processes() {
    let (mut first, address) = FirstClient::listen(&detached());
    let agent = first.agent.id();
    // The agent is not dumpable, so only root can count its descriptors. Any user can read its
    // memory size.
    let descriptors = || match std::fs::read_dir(format!("/proc/{agent}/fd")) {
        Ok(entries) => entries.count(),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => 0,
        Err(error) => panic!("{error}"),
    };
    // After the last execution the next one is pre-forked: at once, except after the very first.
    echo(&mut first);
    let settle = |first: &mut FirstClient, most: usize| {
        wait_until("all have gone", || {
            echo(first);
            first.ping();
            descriptors() <= most
        });
        descriptors()
    };
    let round = |first: &mut FirstClient, count: usize, most: usize| {
        for number in 0..count {
            let mut wire = address.attach(&detached());
            if number % 4 == 0 {
                wire.exec(&command(&["sleep", "100"]));
            }
            follow(&mut wire, 10);
            wire.ping();
            drop(address.connect());
            drop(wire);
            if number % 20 == 0 {
                settle(first, most);
            }
        }
        settle(first, most)
    };
    // With a pre-forked execution; none is started while a tree is being killed.
    const MOST: usize = 20;
    round(&mut first, 300, MOST);
    let sizes = [0, 1000, 1000, 1000].map(|count| {
        round(&mut first, count, MOST);
        resident(agent)
    });
    // A leak grows in each round. What is in use at once can reach a new maximum, but not each time.
    let grew = |pair: &[u64]| pair[1] > pair[0] + 64;
    assert!(!sizes.windows(2).all(grew), "{sizes:?} KiB");
}

fn resident(pid: u32) -> u64 {
    std::fs::read_to_string(format!("/proc/{pid}/status"))
        .unwrap()
        .lines()
        .find_map(|line| {
            line.strip_prefix("VmRSS:")?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .unwrap()
}

#[test]
fn key_is_not_shown_in_debug_output() {
    let attach = Attach {
        key: ClientKey::new([77; 32]),
    };
    assert_eq!(format!("{attach:?}"), "Attach { key: ClientKey(..) }");
    assert!(!format!("{:?}", settings()).contains("7, 7"));
}
