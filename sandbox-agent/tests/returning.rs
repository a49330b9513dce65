//! Clients whose stream breaks and who come back, and those who only pretend to.

mod common;

use std::{
    io::{Read, Write},
    os::linux::net::SocketAddrExt,
    os::unix::net::{SocketAddr, UnixStream},
    process::{Child, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use common::{
    PATIENCE, agent_command,
    processes::{alive, mark, wait_until},
    script, settings,
};
use proptest::prelude::*;
use sandbox_agent::protocol::{
    Attach, ExecRequest, FailStep, Failure, FrameBuffer, HEADER_LEN, Header, Key, Kind, Link,
    LinkEnd, Packet, PacketKind, Received, Resume, Resumed, Settings, encode_frame, encode_message,
};

/// An agent whose clients come by a name.
struct Agent {
    name: String,
    child: Child,
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Agent {
    fn start() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sandbox-agent-returning-{}-{count}", std::process::id());
        let child = agent_command(&[], None, &[])
            .args(["serve", "--listen", &format!("@{name}")])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { name, child }
    }

    fn connect(&self) -> UnixStream {
        let address = SocketAddr::from_abstract_name(&self.name).unwrap();
        let begin = Instant::now();
        loop {
            match UnixStream::connect_addr(&address) {
                Ok(socket) => {
                    socket.set_read_timeout(Some(PATIENCE)).unwrap();
                    return socket;
                }
                Err(error) => assert!(begin.elapsed() < PATIENCE, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The first client, over a link.
    fn first(&self, settings: &Settings) -> Linked {
        let mut linked = self.link(7);
        linked.say(0, Kind::Hello, &settings.encode());
        linked.wait(Kind::Welcome);
        linked
    }

    /// A link that carries nothing yet.
    fn link(&self, secret: u8) -> Linked {
        let mut socket = self.connect();
        let secret = Key::new([secret; 32]);
        send(
            &mut socket,
            Kind::Link,
            &Link {
                secret: secret.clone(),
            }
            .encode(),
        );
        Linked {
            unanswered: true,
            socket,
            secret,
            end: LinkEnd::new(),
            kept: Vec::new(),
            frames: FrameBuffer::new(),
            closed: false,
        }
    }

    fn end(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "the agent does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn send(socket: &mut UnixStream, kind: Kind, message: &[u8]) {
    let mut bytes = Vec::new();
    encode_frame(&mut bytes, 0, kind, false, message);
    socket.write_all(&bytes).unwrap();
}

/// The agent's first word on a stream.
fn answer(socket: &mut UnixStream) -> Result<u64, Failure> {
    let mut head = [0; HEADER_LEN];
    socket.read_exact(&mut head).unwrap();
    let header = Header::decode(&head).unwrap();
    let mut message = vec![0; header.length];
    socket.read_exact(&mut message).unwrap();
    match header.kind {
        Kind::Resumed => Ok(Resumed::decode(&message).unwrap().received),
        Kind::Failed => Err(Failure::decode(&message).unwrap()),
        other => panic!("{other:?}"),
    }
}

/// A host's end of a link.
struct Linked {
    /// The agent's first word was not read: it comes with its first packets.
    unanswered: bool,
    socket: UnixStream,
    secret: Key,
    end: LinkEnd,
    kept: Vec<u8>,
    frames: FrameBuffer,
    closed: bool,
}

impl Linked {
    fn say(&mut self, stream: u32, kind: Kind, message: &[u8]) {
        encode_message(&mut self.kept, stream, kind, message);
        self.flush();
    }

    fn flush(&mut self) {
        while let Some(packet) = self.end.next_packet(self.kept.len()) {
            let from = self.end.in_flight();
            let mut bytes = packet.header.to_vec();
            bytes.extend_from_slice(&self.kept[from..from + packet.length]);
            self.end.sent(packet.length);
            self.socket.write_all(&bytes).unwrap();
        }
    }

    /// The next frame; `None` at the end.
    fn next(&mut self) -> Option<(Kind, Vec<u8>)> {
        if std::mem::take(&mut self.unanswered) {
            assert_eq!(answer(&mut self.socket), Ok(0));
        }
        loop {
            if let Some(frame) = self.frames.next_frame().unwrap() {
                return Some((frame.header.kind, frame.payload.to_vec()));
            }
            let mut chunk = [0; 5000];
            let count = match self.socket.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            };
            let mut bytes = &chunk[..count];
            while let Some(received) = self.end.receive(&mut bytes).unwrap() {
                match received {
                    Received::Data(data) => self.frames.extend(data),
                    Received::Acknowledged(count) => drop(self.kept.drain(..count)),
                    Received::Close => self.closed = true,
                }
            }
        }
    }

    #[track_caller]
    fn wait(&mut self, kind: Kind) -> Vec<u8> {
        loop {
            match self.next() {
                Some((found, message)) if found == kind => return message,
                Some(_) => {}
                None => panic!("the stream ended before {kind:?}"),
            }
        }
    }

    fn resume(&self, received: u64) -> Vec<u8> {
        Resume {
            secret: self.secret.clone(),
            received,
        }
        .encode()
    }

    /// Goes on over another stream.
    fn come_back(&mut self, agent: &Agent) -> Result<(), Failure> {
        let mut socket = agent.connect();
        send(&mut socket, Kind::Resume, &self.resume(self.end.received()));
        let received = answer(&mut socket)?;
        let released = self.end.resume(received).unwrap();
        self.kept.drain(..released);
        self.socket = socket;
        self.flush();
        Ok(())
    }

    fn cut(&self) {
        self.socket.shutdown(std::net::Shutdown::Both).unwrap();
    }

    /// The output of an execution that was started, to its end.
    fn output(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        loop {
            match self.next().expect("the stream ended before the execution") {
                (Kind::Stdout, bytes) => output.extend(bytes),
                (Kind::Exited, _) => return output,
                _ => {}
            }
        }
    }
}

fn leased(milliseconds: u64) -> Settings {
    Settings {
        lease_ms: milliseconds,
        ..settings()
    }
}

#[test]
fn owner_resumes_its_link_and_its_execution_continues() {
    let mut agent = Agent::start();
    let mut owner = agent.first(&leased(60_000));
    owner.say(
        1,
        Kind::Exec,
        &script("echo one; sleep 0.3; echo two").encode(),
    );
    owner.wait(Kind::Started);
    owner.cut();
    // Twice, the second time before the agent can have noticed.
    owner.come_back(&agent).unwrap();
    owner.come_back(&agent).unwrap();
    let output = owner.output();
    assert_eq!(String::from_utf8_lossy(&output), "one\ntwo\n");
    owner.say(0, Kind::Stop, &0u32.to_le_bytes());
    owner.wait(Kind::Stopped);
    assert!(owner.next().is_none() && owner.closed);
    assert_eq!(agent.end().code(), Some(0));
}

#[test]
fn closed_link_cannot_be_resumed() {
    let mut agent = Agent::start();
    let mut owner = agent.first(&leased(60_000));
    let last = owner.end.last_packet();
    owner.socket.write_all(&last).unwrap();
    assert_eq!(agent.end().code(), Some(0));
}

#[test]
fn disconnected_owner_loses_the_sandbox_at_the_lease() {
    let mut agent = Agent::start();
    let mut owner = agent.first(&leased(4000));
    let mark = mark(20);
    owner.say(
        1,
        Kind::Exec,
        &script(&format!("setsid sleep {mark} & sleep {mark}")).encode(),
    );
    wait_until("it runs", || alive(&mark) == 2);
    owner.cut();
    assert_eq!(agent.end().code(), Some(69));
    wait_until("all is killed", || alive(&mark) == 0);
}

#[test]
fn timeouts_are_enforced_while_the_owner_is_disconnected() {
    let agent = Agent::start();
    let mut owner = agent.first(&leased(60_000));
    let mark = mark(20);
    let mut request = script(&format!("echo begun; sleep {mark}"));
    request.timeout_ms = 2000;
    owner.say(1, Kind::Exec, &request.encode());
    let mut output = Vec::new();
    while output != b"begun\n" {
        if let (Kind::Stdout, bytes) = owner.next().expect("it runs") {
            output.extend(bytes);
        }
    }
    owner.cut();
    wait_until("it is killed", || alive(&mark) == 0);
    owner.come_back(&agent).unwrap();
    assert_eq!(owner.output(), b"");
}

#[test]
fn resume_with_a_wrong_secret_is_refused() {
    let agent = Agent::start();
    let mut owner = agent.first(&leased(60_000));
    for secret in [[0; 32], [8; 32]] {
        let mut socket = agent.connect();
        let resume = Resume {
            secret: Key::new(secret),
            received: 0,
        };
        send(&mut socket, Kind::Resume, &resume.encode());
        let failure = answer(&mut socket).unwrap_err();
        assert_eq!(
            (failure.step, &*failure.detail),
            (FailStep::Attach, "no such link")
        );
    }
    // Another version is named.
    let mut socket = agent.connect();
    let mut message = owner.resume(0);
    message[0] = 99;
    send(&mut socket, Kind::Resume, &message);
    assert_eq!(answer(&mut socket).unwrap_err().step, FailStep::Protocol);
    owner.say(1, Kind::Exec, &script("echo served").encode());
    assert_eq!(owner.output(), b"served\n");
}

#[test]
fn resume_with_an_impossible_position_is_a_violation() {
    for received in [1_000_000, u64::MAX, 0] {
        let mut agent = Agent::start();
        let mut owner = agent.first(&leased(60_000));
        // What the agent has sent is acknowledged, so that it cannot be asked for again.
        owner.say(0, Kind::Ping, b"x");
        owner.wait(Kind::Pong);
        owner.say(0, Kind::Ping, b"x");
        owner.wait(Kind::Pong);
        let mut socket = agent.connect();
        send(&mut socket, Kind::Resume, &owner.resume(received));
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
        let mut agent = Agent::start();
        let mut owner = agent.first(&leased(60_000));
        owner.socket.write_all(&bytes).unwrap();
        let failure = Failure::decode(&owner.wait(Kind::Failed)).unwrap();
        assert_eq!(failure.step, FailStep::Protocol);
        assert_eq!(agent.end().code(), Some(70));
    }
}

#[test]
fn later_clients_have_their_own_links() {
    let mut agent = Agent::start();
    let mut owner = agent.first(&leased(60_000));
    let key = settings().key;
    let mut later = agent.link(9);
    later.say(0, Kind::Attach, &Attach { key }.encode());
    later.wait(Kind::Welcome);
    later.say(5, Kind::Exec, &script("sleep 0.2; echo later").encode());
    owner.say(5, Kind::Exec, &script("sleep 0.2; echo owner").encode());
    for linked in [&mut later, &mut owner] {
        linked.cut();
        linked.come_back(&agent).unwrap();
    }
    assert_eq!(later.output(), b"later\n");
    assert_eq!(owner.output(), b"owner\n");
    // What breaks the protocol is its own connection alone.
    later.socket.write_all(&[0xff; 12]).unwrap();
    later.wait(Kind::Failed);
    assert!(later.come_back(&agent).is_err());
    // The wrong key is refused, over the link.
    let mut stranger = agent.link(10);
    let key = Key::new([1; 32]);
    stranger.say(0, Kind::Attach, &Attach { key }.encode());
    let failure = Failure::decode(&stranger.wait(Kind::Failed)).unwrap();
    assert_eq!(failure.detail, "wrong key");
    assert!(stranger.next().is_none() && stranger.closed);
    owner.say(6, Kind::Exec, &script("echo served").encode());
    assert_eq!(owner.output(), b"served\n");
    owner.say(0, Kind::Stop, &0u32.to_le_bytes());
    owner.wait(Kind::Stopped);
    assert_eq!(agent.end().code(), Some(0));
}

/// An agent that outlives its first client, and the link of that one.
fn unowned() -> (Agent, Linked) {
    let agent = Agent::start();
    let first = agent.first(&Settings {
        owned: false,
        lease_ms: 0,
        ..settings()
    });
    (agent, first)
}

impl Agent {
    /// A later client; an error where it is not served.
    fn attach(&self, secret: u8) -> Result<Linked, Failure> {
        let mut later = self.link(secret);
        let key = settings().key;
        later.say(0, Kind::Attach, &Attach { key }.encode());
        match later.next() {
            Some((Kind::Welcome, _)) => Ok(later),
            Some((Kind::Failed, message)) => Err(Failure::decode(&message).unwrap()),
            other => panic!("{other:?}"),
        }
    }
}

/// A client that runs something, and is killed: it cannot say that it goes.
fn used_and_killed(agent: &Agent, secret: u8) {
    let mut later = agent.attach(secret).unwrap();
    later.say(1, Kind::Exec, &script("echo ran").encode());
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
        client.say(1, Kind::Exec, &request.encode());
        client.wait(Kind::Started);
        client.cut();
    }
    for secret in 20..60 {
        used_and_killed(&agent, secret);
    }
    for client in &mut busy {
        client.come_back(&agent).unwrap();
        client.say(1, Kind::Stdin, b"back\n");
        assert_eq!(client.output(), b"back\n");
    }
    first.say(1, Kind::Exec, &script("echo served").encode());
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
    // Its place is another's.
    assert_eq!(
        others[3].come_back(&agent).unwrap_err().detail,
        "no such link"
    );
    for client in others
        .iter_mut()
        .filter(|client| !client.secret.eq(&Key::new([103; 32])))
    {
        client.say(0, Kind::Ping, b"x");
        client.wait(Kind::Pong);
    }
    first.say(0, Kind::Ping, b"x");
    first.wait(Kind::Pong);
}

#[test]
fn link_without_a_listening_socket_is_refused() {
    let (mut socket, theirs) = UnixStream::pair().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut agent = agent_command(&[], Some(std::os::fd::AsRawFd::as_raw_fd(&theirs)), &[])
        .args(["serve", "--fd", "42"])
        .spawn()
        .unwrap();
    drop(theirs);
    let secret = Key::new([1; 32]);
    send(&mut socket, Kind::Link, &Link { secret }.encode());
    assert_eq!(answer(&mut socket).unwrap_err().step, FailStep::Protocol);
    assert_eq!(agent.wait().unwrap().code(), Some(70));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_in_handshake_or_link_do_not_harm_the_agent(bytes in proptest::collection::vec(any::<u8>(), 1..300), kind in 0..4u8) {
        let agent = Agent::start();
        let mut owner = agent.first(&settings());
        let key = settings().key;
        let mut later = agent.link(3);
        match kind {
            // In a link, before and after the key was shown.
            0 => {}
            1 => {
                later.say(0, Kind::Attach, &Attach { key }.encode());
                later.wait(Kind::Welcome);
            }
            // In the place of a link, and of a return.
            2 => {
                later.socket = agent.connect();
                send(&mut later.socket, Kind::Link, &bytes);
            }
            _ => {
                later.socket = agent.connect();
                send(&mut later.socket, Kind::Resume, &bytes);
            }
        }
        // The agent may close its end before it has taken everything.
        let _ = later.socket.write_all(&bytes);
        owner.say(1, Kind::Exec, &script("echo served").encode());
        prop_assert_eq!(owner.output(), b"served\n");
    }
}
