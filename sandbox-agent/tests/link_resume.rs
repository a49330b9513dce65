//! Resuming links after a broken stream.

#[path = "link_resume/client.rs"]
mod client;
mod common;

use std::{io::Write, os::unix::net::UnixStream};

use client::{LinkedClient, NamedAgent, answer, send};
use common::{
    TIMEOUT, agent_command,
    processes::{alive, unique_seconds, wait_until},
    script, settings,
};
use proptest::prelude::*;
use sandbox_agent::protocol::{
    AgentSettings, Attach, BeginLink, ClientKey, ExecRequest, FailStep, Failure, FrameKind, Packet,
    PacketKind, Resume,
};

fn leased(milliseconds: u64) -> AgentSettings {
    AgentSettings {
        lease_ms: milliseconds,
        ..settings()
    }
}

#[test]
fn owner_resumes_its_link_and_its_execution_continues() {
    let mut agent = NamedAgent::start();
    let mut owner = agent.first(&leased(60_000));
    owner.send(
        1,
        FrameKind::Exec,
        &script("echo one; sleep 0.3; echo two").encode(),
    );
    owner.wait(FrameKind::Started);
    owner.cut();
    // Twice; the second time before the agent can have noticed.
    owner.reconnect(&agent).unwrap();
    owner.reconnect(&agent).unwrap();
    let output = owner.output();
    assert_eq!(String::from_utf8_lossy(&output), "one\ntwo\n");
    owner.send(0, FrameKind::Stop, &0u32.to_le_bytes());
    owner.wait(FrameKind::Stopped);
    assert!(owner.next().is_none() && owner.closed);
    assert_eq!(agent.end().code(), Some(0));
}

#[test]
fn closed_link_cannot_be_resumed() {
    let mut agent = NamedAgent::start();
    let mut owner = agent.first(&leased(60_000));
    let last = owner.end.last_packet();
    owner.socket.write_all(&last).unwrap();
    assert_eq!(agent.end().code(), Some(0));
}

#[test]
fn disconnected_owner_loses_the_sandbox_at_the_lease() {
    let mut agent = NamedAgent::start();
    let mut owner = agent.first(&leased(4000));
    let mark = unique_seconds();
    owner.send(
        1,
        FrameKind::Exec,
        &script(&format!("setsid sleep {mark} & sleep {mark}")).encode(),
    );
    wait_until("it runs", || alive(&mark) == 2);
    owner.cut();
    assert_eq!(agent.end().code(), Some(69));
    wait_until("all is killed", || alive(&mark) == 0);
}

#[test]
fn timeouts_are_enforced_while_the_owner_is_disconnected() {
    let agent = NamedAgent::start();
    let mut owner = agent.first(&leased(60_000));
    let mark = unique_seconds();
    let mut request = script(&format!("echo begun; sleep {mark}"));
    request.timeout_ms = 2000;
    owner.send(1, FrameKind::Exec, &request.encode());
    let mut output = Vec::new();
    while output != b"begun\n" {
        if let (FrameKind::Stdout, bytes) = owner.next().expect("it runs") {
            output.extend(bytes);
        }
    }
    owner.cut();
    wait_until("it is killed", || alive(&mark) == 0);
    owner.reconnect(&agent).unwrap();
    assert_eq!(owner.output(), b"");
}

#[test]
fn resume_with_a_wrong_secret_is_refused() {
    let agent = NamedAgent::start();
    let mut owner = agent.first(&leased(60_000));
    for secret in [[0; 32], [8; 32]] {
        let mut socket = agent.connect();
        let resume = Resume {
            secret: ClientKey::new(secret),
            received: 0,
        };
        send(&mut socket, FrameKind::Resume, &resume.encode());
        let failure = answer(&mut socket).unwrap_err();
        assert_eq!(
            (failure.step, &*failure.detail),
            (FailStep::Attach, "no such link")
        );
    }
    // A wrong version is reported.
    let mut socket = agent.connect();
    let mut message = owner.resume(0);
    message[0] = 99;
    send(&mut socket, FrameKind::Resume, &message);
    assert_eq!(answer(&mut socket).unwrap_err().step, FailStep::Protocol);
    owner.send(1, FrameKind::Exec, &script("echo served").encode());
    assert_eq!(owner.output(), b"served\n");
}

#[test]
fn resume_with_an_impossible_position_is_a_violation() {
    for received in [1_000_000, u64::MAX, 0] {
        let mut agent = NamedAgent::start();
        let mut owner = agent.first(&leased(60_000));
        // Acknowledges everything, so that it cannot be requested again.
        owner.send(0, FrameKind::Ping, b"x");
        owner.wait(FrameKind::Pong);
        owner.send(0, FrameKind::Ping, b"x");
        owner.wait(FrameKind::Pong);
        let mut socket = agent.connect();
        send(&mut socket, FrameKind::Resume, &owner.resume(received));
        assert_eq!(answer(&mut socket).unwrap_err().step, FailStep::Protocol);
        assert_eq!(agent.end().code(), Some(70), "{received}");
    }
}

#[test]
fn invalid_acknowledgement_is_a_violation() {
    let unsent = Packet {
        kind: PacketKind::Acknowledge,
        length: 0,
        acknowledged: 1_000_000,
    };
    for bytes in [unsent.encode(), [0; 12], [0xff; 12]] {
        let mut agent = NamedAgent::start();
        let mut owner = agent.first(&leased(60_000));
        owner.socket.write_all(&bytes).unwrap();
        let failure = Failure::decode(&owner.wait(FrameKind::Failed)).unwrap();
        assert_eq!(failure.step, FailStep::Protocol);
        assert_eq!(agent.end().code(), Some(70));
    }
}

#[test]
fn later_clients_have_their_own_links() {
    let mut agent = NamedAgent::start();
    let mut owner = agent.first(&leased(60_000));
    let key = settings().key;
    let mut later = agent.link(9);
    later.send(0, FrameKind::Attach, &Attach { key }.encode());
    later.wait(FrameKind::Welcome);
    later.send(
        5,
        FrameKind::Exec,
        &script("sleep 0.2; echo later").encode(),
    );
    owner.send(
        5,
        FrameKind::Exec,
        &script("sleep 0.2; echo owner").encode(),
    );
    for linked in [&mut later, &mut owner] {
        linked.cut();
        linked.reconnect(&agent).unwrap();
    }
    assert_eq!(later.output(), b"later\n");
    assert_eq!(owner.output(), b"owner\n");
    // A violation ends only its own connection.
    later.socket.write_all(&[0xff; 12]).unwrap();
    later.wait(FrameKind::Failed);
    assert!(later.reconnect(&agent).is_err());
    // A wrong key is refused over the link.
    let mut unknown_client = agent.link(10);
    let key = ClientKey::new([1; 32]);
    unknown_client.send(0, FrameKind::Attach, &Attach { key }.encode());
    let failure = Failure::decode(&unknown_client.wait(FrameKind::Failed)).unwrap();
    assert_eq!(failure.detail, "wrong key");
    assert!(unknown_client.next().is_none() && unknown_client.closed);
    owner.send(6, FrameKind::Exec, &script("echo served").encode());
    assert_eq!(owner.output(), b"served\n");
    owner.send(0, FrameKind::Stop, &0u32.to_le_bytes());
    owner.wait(FrameKind::Stopped);
    assert_eq!(agent.end().code(), Some(0));
}

/// An agent that outlives its first client, and that client's link.
fn unowned() -> (NamedAgent, LinkedClient) {
    let agent = NamedAgent::start();
    let first = agent.first(&AgentSettings {
        owned: false,
        lease_ms: 0,
        ..settings()
    });
    (agent, first)
}

/// Runs an execution as a client that is then killed without closing its link.
fn used_and_killed(agent: &NamedAgent, secret: u8) {
    let mut later = agent.attach(secret).unwrap();
    later.send(1, FrameKind::Exec, &script("echo ran").encode());
    assert_eq!(later.output(), b"ran\n");
    later.cut();
}

#[test]
fn killed_clients_are_evicted_for_new_ones() {
    let (agent, _first) = unowned();
    for secret in 20..100 {
        used_and_killed(&agent, secret);
    }
}

#[test]
fn disconnected_client_with_an_execution_is_not_evicted() {
    let (agent, mut first) = unowned();
    let mut busy: Vec<_> = (100..110)
        .map(|secret| agent.attach(secret).unwrap())
        .collect();
    for client in &mut busy {
        let request = ExecRequest {
            stdin: true,
            ..script("read line; echo $line")
        };
        client.send(1, FrameKind::Exec, &request.encode());
        client.wait(FrameKind::Started);
        client.cut();
    }
    for secret in 20..60 {
        used_and_killed(&agent, secret);
    }
    for client in &mut busy {
        client.reconnect(&agent).unwrap();
        client.send(1, FrameKind::Stdin, b"back\n");
        assert_eq!(client.output(), b"back\n");
    }
    first.send(1, FrameKind::Exec, &script("echo served").encode());
    assert_eq!(first.output(), b"served\n");
}

#[test]
fn connected_client_is_not_evicted() {
    let (agent, mut first) = unowned();
    let mut others: Vec<_> = (100..115)
        .map(|secret| agent.attach(secret).unwrap())
        .collect();
    let failure = agent.attach(200).err().expect("no room");
    assert_eq!(
        (failure.step, &*failure.detail),
        (FailStep::Attach, "too many clients")
    );
    others[3].cut();
    agent.attach(201).unwrap();
    // Another client has its slot.
    assert_eq!(
        others[3].reconnect(&agent).unwrap_err().detail,
        "no such link"
    );
    for client in others
        .iter_mut()
        .filter(|client| !client.secret.eq(&ClientKey::new([103; 32])))
    {
        client.send(0, FrameKind::Ping, b"x");
        client.wait(FrameKind::Pong);
    }
    first.send(0, FrameKind::Ping, b"x");
    first.wait(FrameKind::Pong);
}

#[test]
fn link_without_a_listening_socket_is_refused() {
    let (mut socket, agent_socket) = UnixStream::pair().unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut agent = agent_command(
        &[],
        Some(std::os::fd::AsRawFd::as_raw_fd(&agent_socket)),
        &[],
    )
    .args(["serve", "--fd", "42"])
    .spawn()
    .unwrap();
    drop(agent_socket);
    let secret = ClientKey::new([1; 32]);
    send(&mut socket, FrameKind::Link, &BeginLink { secret }.encode());
    assert_eq!(answer(&mut socket).unwrap_err().step, FailStep::Protocol);
    assert_eq!(agent.wait().unwrap().code(), Some(70));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_in_handshake_or_link_do_not_harm_the_agent(bytes in proptest::collection::vec(any::<u8>(), 1..300), kind in 0..4u8) {
        let agent = NamedAgent::start();
        let mut owner = agent.first(&settings());
        let key = settings().key;
        let mut later = agent.link(3);
        match kind {
            // In a link, before and after authentication.
            0 => {}
            1 => {
                later.send(0, FrameKind::Attach, &Attach { key }.encode());
                later.wait(FrameKind::Welcome);
            }
            // Instead of a link, and of a resume.
            2 => {
                later.socket = agent.connect();
                send(&mut later.socket, FrameKind::Link, &bytes);
            }
            _ => {
                later.socket = agent.connect();
                send(&mut later.socket, FrameKind::Resume, &bytes);
            }
        }
        // The agent may disconnect before it has read everything.
        let _ = later.socket.write_all(&bytes);
        owner.send(1, FrameKind::Exec, &script("echo served").encode());
        prop_assert_eq!(owner.output(), b"served\n");
    }
}
