//! An agent that breaks the resumable link below the frames: it acknowledges bytes that were not
//! sent, resumes wrongly, and does not reconnect. These tests use tokio's paused clock.

mod fake;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fake::{Count, Destroyed, PIPE, assert_ended, exec, exited, request, settings, unknown_reason};
use proptest::prelude::*;
use sandbox_agent::protocol::{
    ExitKind, FailStep, Failure, FrameBuffer, FrameKind, HEADER_LEN, Header, LinkEnd, Packet,
    PacketKind, Received, Resume, Resumed, Welcome, encode_frame,
};
use sandbox_core::spi::Instance;
use sandbox_core::{Error, ErrorKind, ExecEnd, Outcome, Result};
use sandbox_host::{AgentInstance, ByteStream, Connector, Unreachable};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;

/// Hands out these streams one after another, then fails.
#[derive(Clone, Default)]
struct Streams(Arc<Mutex<VecDeque<DuplexStream>>>);

#[async_trait]
impl Connector for Streams {
    async fn open(&self) -> std::result::Result<Box<dyn ByteStream>, Unreachable> {
        match self.0.lock().unwrap().pop_front() {
            Some(stream) => Ok(Box::new(stream)),
            None => Err(Unreachable::Now(Error::new(
                ErrorKind::Io,
                "reach the agent",
                "no stream is left",
            ))),
        }
    }
}

/// The agent's end of a link.
struct FakeLinkAgent {
    stream: DuplexStream,
    end: LinkEnd,
    kept: Vec<u8>,
    frames: FrameBuffer,
}

impl FakeLinkAgent {
    fn new(stream: DuplexStream) -> Self {
        Self {
            stream,
            end: LinkEnd::new(),
            kept: Vec::new(),
            frames: FrameBuffer::new(),
        }
    }

    async fn raw(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Reads the host's first frame on a stream.
    async fn first_frame(&mut self) -> (FrameKind, Vec<u8>) {
        let mut head = [0; HEADER_LEN];
        self.stream.read_exact(&mut head).await.unwrap();
        let header = Header::decode(&head).unwrap();
        let mut message = vec![0; header.length];
        self.stream.read_exact(&mut message).await.unwrap();
        (header.kind, message)
    }

    async fn answer(&mut self, received: u64) {
        let mut bytes = Vec::new();
        encode_frame(
            &mut bytes,
            0,
            FrameKind::Resumed,
            false,
            &Resumed { received }.encode(),
        );
        self.raw(&bytes).await;
    }

    async fn frame(&mut self, stream: u32, kind: FrameKind, payload: &[u8]) {
        encode_frame(&mut self.kept, stream, kind, false, payload);
        while let Some(packet) = self.end.next_packet(self.kept.len()) {
            let from = self.end.in_flight();
            let mut bytes = packet.header.to_vec();
            bytes.extend_from_slice(&self.kept[from..from + packet.length]);
            self.end.sent(packet.length);
            self.raw(&bytes).await;
        }
    }

    async fn next(&mut self) -> Option<(u32, FrameKind, Vec<u8>)> {
        loop {
            if let Some(frame) = self.frames.next_frame().unwrap() {
                let header = frame.header;
                return Some((header.stream, header.kind, frame.payload.to_vec()));
            }
            let mut chunk = [0; 4096];
            let count = match self.stream.read(&mut chunk).await {
                Ok(0) | Err(_) => return None,
                Ok(count) => count,
            };
            let mut bytes = &chunk[..count];
            while let Some(received) = self.end.receive(&mut bytes).unwrap() {
                match received {
                    Received::Data(data) => self.frames.extend(data),
                    Received::Acknowledged(count) => drop(self.kept.drain(..count)),
                    Received::Close => return None,
                }
            }
        }
    }

    async fn wait_for(&mut self, kind: FrameKind) -> u32 {
        loop {
            let (stream, found, _) = self.next().await.expect("more of the host");
            if found == kind {
                return stream;
            }
        }
    }

    /// Answers the host's first connection.
    async fn begin(&mut self) {
        assert_eq!(self.first_frame().await.0, FrameKind::Link);
        self.answer(0).await;
        self.wait_for(FrameKind::Hello).await;
        let welcome = Welcome {
            split: true,
            ..Welcome::default()
        };
        self.frame(0, FrameKind::Welcome, &welcome.encode()).await;
    }

    /// Resumes over this stream. Returns the previous one, which stays open.
    async fn resume(&mut self, stream: DuplexStream) -> DuplexStream {
        let before = std::mem::replace(&mut self.stream, stream);
        let (kind, message) = self.first_frame().await;
        assert_eq!(kind, FrameKind::Resume);
        let has = Resume::decode(&message).unwrap().received;
        let released = self.end.resume(has).unwrap();
        self.kept.drain(..released);
        self.answer(self.end.received()).await;
        before
    }

    async fn packet(&mut self, kind: PacketKind, acknowledged: u64) {
        let packet = Packet {
            kind,
            length: 0,
            acknowledged,
        };
        self.raw(&packet.encode()).await;
    }
}

/// Pairs of connected streams. The host opens its ends one after another.
fn streams(count: usize) -> (Streams, Vec<DuplexStream>) {
    let streams = Streams::default();
    let mut guests = Vec::new();
    for _ in 0..count {
        let (host, guest) = tokio::io::duplex(PIPE);
        streams.0.lock().unwrap().push_back(host);
        guests.push(guest);
    }
    guests.reverse();
    (streams, guests)
}

async fn connect(streams: &Streams) -> (Result<AgentInstance>, Destroyed) {
    let destroyed = Destroyed::default();
    let isolator = Box::new(destroyed.clone());
    let instance = AgentInstance::connect_by(Arc::new(streams.clone()), settings(), isolator).await;
    (instance, destroyed)
}

/// The host's client of this agent, which accepts `count` streams.
async fn client_of<F, Fut>(count: usize, agent: F) -> (AgentInstance, Destroyed)
where
    F: FnOnce(FakeLinkAgent, Vec<DuplexStream>) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (streams, mut guests) = streams(count);
    let mut fake = FakeLinkAgent::new(guests.pop().unwrap());
    let begun = async move {
        fake.begin().await;
        (fake, guests)
    };
    let ((instance, destroyed), (fake, guests)) = tokio::join!(connect(&streams), begun);
    tokio::spawn(agent(fake, guests));
    (instance.unwrap(), destroyed)
}

/// An execution with a time limit above all bounds of the link.
async fn exec_for_long(instance: &AgentInstance) -> ExecEnd {
    let request = request().timeout(Duration::from_secs(600));
    instance
        .exec(&request, None.into(), &mut Count::default())
        .await
        .unwrap()
}

async fn assert_violation(instance: &AgentInstance, destroyed: &Destroyed, expected: &str) {
    let end = exec(instance).await;
    let reason = unknown_reason(&end);
    assert!(reason.contains("broke the protocol"), "{reason}");
    assert!(reason.contains(expected), "{reason}");
    assert!(destroyed.soon().await);
    assert_ended(instance).await;
}

#[tokio::test(start_paused = true)]
async fn acknowledgement_of_unsent_bytes_is_a_violation() {
    for kind in [PacketKind::Acknowledge, PacketKind::Close] {
        let (instance, destroyed) = client_of(1, move |mut agent, _| async move {
            agent.wait_for(FrameKind::Exec).await;
            agent.packet(kind, 1_000_000).await;
            agent.next().await;
        })
        .await;
        assert_violation(&instance, &destroyed, "bytes that were not sent").await;
    }
}

#[tokio::test(start_paused = true)]
async fn decreasing_acknowledgement_is_a_violation() {
    let (instance, destroyed) = client_of(1, |mut agent, _| async move {
        agent.wait_for(FrameKind::Exec).await;
        let received = agent.end.received();
        agent.packet(PacketKind::Acknowledge, received).await;
        agent.packet(PacketKind::Acknowledge, received - 1).await;
        agent.next().await;
    })
    .await;
    assert_violation(&instance, &destroyed, "backwards").await;
}

#[tokio::test(start_paused = true)]
async fn resume_with_wrong_position_is_a_violation() {
    for (received, expected) in [(0, "backwards"), (u64::MAX, "bytes that were not sent")] {
        let (instance, destroyed) = client_of(2, move |mut agent, mut more| async move {
            agent.wait_for(FrameKind::Exec).await;
            let had = agent.end.received();
            agent.packet(PacketKind::Acknowledge, had).await;
            // The acknowledgement is in the old stream: the host reads it before the end of stream.
            agent.stream = more.pop().unwrap();
            assert_eq!(agent.first_frame().await.0, FrameKind::Resume);
            agent.answer(received).await;
            agent.next().await;
        })
        .await;
        assert_violation(&instance, &destroyed, expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn malformed_resume_response_is_a_violation() {
    let mut long = Vec::new();
    encode_frame(&mut long, 0, FrameKind::Failed, false, &[0; 5000]);
    let mut other = Vec::new();
    encode_frame(&mut other, 0, FrameKind::Pong, false, b"");
    for bytes in [vec![0xff; 100], vec![0; 100], long, other] {
        let (instance, destroyed) = client_of(2, move |mut agent, mut more| async move {
            agent.wait_for(FrameKind::Exec).await;
            agent.stream = more.pop().unwrap();
            agent.first_frame().await;
            agent.raw(&bytes).await;
            agent.next().await;
        })
        .await;
        assert_violation(&instance, &destroyed, "").await;
    }
}

#[tokio::test(start_paused = true)]
async fn refused_resume_ends_the_sandbox_without_a_violation() {
    let (instance, destroyed) = client_of(2, |mut agent, mut more| async move {
        agent.wait_for(FrameKind::Exec).await;
        agent.stream = more.pop().unwrap();
        agent.first_frame().await;
        let failure = Failure {
            step: FailStep::Attach,
            errno: 0,
            detail: "no such link".into(),
        };
        let mut bytes = Vec::new();
        encode_frame(&mut bytes, 0, FrameKind::Failed, false, &failure.encode());
        agent.raw(&bytes).await;
        agent.next().await;
    })
    .await;
    let start = Instant::now();
    let end = exec(&instance).await;
    assert!(unknown_reason(&end).contains("no such link"), "{end:?}");
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(destroyed.soon().await);
    assert_ended(&instance).await;
}

/// The agent accepts the connection and sends nothing.
#[tokio::test(start_paused = true)]
async fn silent_agent_is_given_up_after_the_lease() {
    let (instance, destroyed) = client_of(50, |mut agent, mut more| async move {
        agent.wait_for(FrameKind::Exec).await;
        drop(agent);
        let _silent = more.pop();
        std::future::pending::<()>().await;
    })
    .await;
    let start = Instant::now();
    let end = exec(&instance).await;
    assert!(
        unknown_reason(&end).contains("did not come back"),
        "{end:?}"
    );
    let elapsed = start.elapsed();
    // The lease of these settings is 30 s.
    assert!(
        elapsed > Duration::from_secs(25) && elapsed < Duration::from_secs(60),
        "{elapsed:?}"
    );
    assert!(destroyed.soon().await);
}

/// A stream stays open and carries nothing: the host tries another one before it gives up the
/// agent.
#[tokio::test(start_paused = true)]
async fn dead_stream_is_replaced() {
    let (instance, _destroyed) = client_of(2, |mut agent, mut more| async move {
        let stream = agent.wait_for(FrameKind::Exec).await;
        let dead = agent.resume(more.pop().unwrap()).await;
        agent
            .frame(stream, FrameKind::Exited, &exited(ExitKind::Exited(5)))
            .await;
        while let Some((_, kind, payload)) = agent.next().await {
            if kind == FrameKind::Ping {
                agent.frame(0, FrameKind::Pong, &payload).await;
            }
        }
        drop(dead);
    })
    .await;
    let start = Instant::now();
    let end = exec_for_long(&instance).await;
    assert_eq!(end.outcome, Outcome::Exited { code: 5 });
    assert!(start.elapsed() < Duration::from_secs(60));
}

/// The agent resumes over each stream, and then does nothing.
#[tokio::test(start_paused = true)]
async fn agent_that_only_resumes_has_stalled() {
    let (instance, destroyed) = client_of(20, |mut agent, mut more| async move {
        agent.wait_for(FrameKind::Exec).await;
        let mut dead = Vec::new();
        while let Some(next) = more.pop() {
            dead.push(agent.resume(next).await);
        }
        std::future::pending::<()>().await;
    })
    .await;
    let start = Instant::now();
    let end = exec_for_long(&instance).await;
    assert!(unknown_reason(&end).contains("does not answer"), "{end:?}");
    assert!(start.elapsed() < Duration::from_secs(120));
    assert!(destroyed.soon().await);
}

/// The agent resumes over each stream, and closes it at once.
#[tokio::test(start_paused = true)]
async fn agent_that_closes_every_stream_is_given_up_after_few_reconnects() {
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let (instance, destroyed) = client_of(500, |mut agent, mut more| async move {
        agent.wait_for(FrameKind::Exec).await;
        while let Some(next) = more.pop() {
            drop(agent.resume(next).await);
            agent.stream = tokio::io::duplex(1).0;
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    })
    .await;
    let start = Instant::now();
    let end = exec_for_long(&instance).await;
    assert!(
        unknown_reason(&end).contains("did not come back"),
        "{end:?}"
    );
    // The lease of these settings is 30 s.
    assert!(start.elapsed() < Duration::from_secs(60));
    assert!(count.load(std::sync::atomic::Ordering::Relaxed) < 60);
    assert!(destroyed.soon().await);
}

#[tokio::test(start_paused = true)]
async fn malformed_first_response_fails_the_connection() {
    let mut wrong = Vec::new();
    encode_frame(
        &mut wrong,
        0,
        FrameKind::Resumed,
        false,
        &Resumed { received: 5 }.encode(),
    );
    for bytes in [wrong, vec![0xff; 60], vec![0; 60], Vec::new()] {
        let (streams, mut guests) = streams(1);
        let mut guest = guests.pop().unwrap();
        let agent = async {
            guest.write_all(&bytes).await.unwrap();
            // Until the host closes the stream.
            let mut rest = Vec::new();
            let _ = guest.read_to_end(&mut rest).await;
        };
        let ((instance, destroyed), ()) = tokio::join!(connect(&streams), agent);
        assert_eq!(instance.unwrap_err().kind(), ErrorKind::Protocol);
        assert!(destroyed.soon().await);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn garbage_in_packets_ends_the_connection(
        bytes in proptest::collection::vec(any::<u8>(), 1..600),
        framed in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (instance, destroyed) = client_of(1, move |mut agent, _| async move {
                agent.wait_for(FrameKind::Exec).await;
                if framed {
                    let header = Packet { kind: PacketKind::Data, length: bytes.len(), acknowledged: 0 };
                    agent.raw(&header.encode()).await;
                }
                agent.raw(&bytes).await;
            })
            .await;
            // Random bytes may form a valid end of the execution, so any outcome is accepted here.
            // The host must not panic, and must destroy the sandbox.
            let _ = exec(&instance).await;
            drop(instance);
            assert!(destroyed.soon().await);
        });
    }
}
