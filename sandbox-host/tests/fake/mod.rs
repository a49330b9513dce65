//! An agent that a test controls, and the host's client of it.
#![allow(dead_code, reason = "each test program uses a part")]

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_agent::protocol::{
    Channel, Confinement, ExitKind, ExitReport, FrameBuffer, FrameKind, WINDOW, Welcome,
    encode_frame,
};
use sandbox_core::policy::{EgressRules, NetworkPolicy};
use sandbox_core::spi::{Flow, Instance, OutputSink, OutputStream};
use sandbox_core::{
    CapabilityPolicy, EnforcementReport, ErrorKind, ExecEnd, ExecRequest, Outcome, Plan, Result,
    SandboxSpec,
};
use sandbox_host::egress::EgressConfig;
use sandbox_host::{AgentInstance, AttachedSandbox, ClientKey, Isolator, Sandbox};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// The most bytes in transit in each direction.
pub const PIPE: usize = 1 << 20;

/// Counts the requests to destroy the sandbox.
#[derive(Clone, Default)]
pub struct Destroyed(Arc<AtomicUsize>);

impl Destroyed {
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether there is one, after 50 ms for requests that are under way.
    pub async fn soon(&self) -> bool {
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.count() > 0
    }
}

#[async_trait]
impl Isolator for Destroyed {
    fn tier(&self) -> &str {
        "hostile"
    }
    async fn destroy(&self) -> Result<()> {
        self.destroy_soon();
        Ok(())
    }
    fn destroy_soon(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    async fn oom_kills(&self) -> Option<u64> {
        Some(0)
    }
    async fn post_mortem(&self) -> Option<String> {
        None
    }
}

/// Counts output, and stops the execution after `stop_after` bytes.
#[derive(Default)]
pub struct Count {
    pub bytes: usize,
    pub stop_after: Option<usize>,
}

#[async_trait]
impl OutputSink for Count {
    async fn write(&mut self, _stream: OutputStream, bytes: &[u8]) -> Flow {
        self.bytes += bytes.len();
        match self.stop_after {
            Some(limit) if self.bytes > limit => Flow::Stop,
            _ => Flow::Continue,
        }
    }
}

/// The agent's end of the stream.
pub struct FakeAgent {
    pub stream: DuplexStream,
    buffer: FrameBuffer,
    /// Bytes of standard output and standard error that [`Self::frame`] sent, by stream.
    sent: HashMap<u32, [u64; 2]>,
}

impl FakeAgent {
    pub fn new(stream: DuplexStream) -> Self {
        Self {
            stream,
            buffer: FrameBuffer::new(),
            sent: HashMap::new(),
        }
    }

    pub async fn next(&mut self) -> Option<(u32, FrameKind, Vec<u8>)> {
        loop {
            if let Some(frame) = self.buffer.next_frame().unwrap() {
                return Some((
                    frame.header.stream,
                    frame.header.kind,
                    frame.payload.to_vec(),
                ));
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes).await {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.buffer.extend(&bytes[..count]),
            }
        }
    }

    pub async fn wait_for(&mut self, kind: FrameKind) -> Option<u32> {
        while let Some((stream, found, _)) = self.next().await {
            if found == kind {
                return Some(stream);
            }
        }
        None
    }

    pub async fn frame(&mut self, stream: u32, kind: FrameKind, payload: &[u8]) -> bool {
        let sent = self.sent.entry(stream).or_default();
        match kind {
            FrameKind::Stdout => sent[0] += payload.len() as u64,
            FrameKind::Stderr => sent[1] += payload.len() as u64,
            _ => {}
        }
        self.raw(&frame(stream, kind, payload)).await
    }

    /// Reports the end of an execution, with the output that was sent.
    pub async fn exit(&mut self, stream: u32, kind: ExitKind) -> bool {
        let report = self.report(stream, kind);
        self.frame(stream, FrameKind::Exited, &report.encode())
            .await
    }

    /// The report of an end, with the output that was sent.
    pub fn report(&self, stream: u32, kind: ExitKind) -> ExitReport {
        let [stdout_total, stderr_total] = self.sent.get(&stream).copied().unwrap_or_default();
        ExitReport {
            stdout_total,
            stderr_total,
            ..report(kind)
        }
    }

    pub async fn raw(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Answers the client's greeting.
    pub async fn welcome(&mut self) {
        let welcome = Welcome {
            split: true,
            ..Welcome::default()
        };
        assert!(self.frame(0, FrameKind::Welcome, &welcome.encode()).await);
    }

    /// Answers pings and nothing else, until the host closes the stream.
    pub async fn only_answer_pings(&mut self) {
        while let Some((_, kind, payload)) = self.next().await {
            if kind == FrameKind::Ping && !self.frame(0, FrameKind::Pong, &payload).await {
                return;
            }
        }
    }

    /// Sends output as fast as credit allows, until the host kills the execution.
    pub async fn flood(&mut self, stream: u32) {
        let piece = vec![b'f'; 60_000];
        let mut credit = i64::from(WINDOW);
        loop {
            while credit >= 60_000 {
                if !self.frame(stream, FrameKind::Stdout, &piece).await {
                    return;
                }
                credit -= 60_000;
            }
            match self.next().await {
                Some((_, FrameKind::Credit, payload)) => {
                    credit += i64::from(Channel::read_credit(&payload).unwrap().1);
                }
                Some((_, FrameKind::Kill, _)) | None => return,
                Some(_) => {}
            }
        }
    }

    /// Floods the first stream of this kind until the host kills the execution, reports that it was
    /// killed, and answers pings.
    pub async fn flood_first(mut self, kind: FrameKind) {
        let stream = self.wait_for(kind).await.unwrap();
        self.flood(stream).await;
        self.exit(stream, ExitKind::Killed).await;
        self.only_answer_pings().await;
    }

    /// Neither sends nor reads anything more.
    pub async fn stall(self) {
        std::future::pending::<()>().await;
        drop(self);
    }
}

/// The bytes of one frame.
pub fn frame(stream: u32, kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_frame(&mut bytes, stream, kind, false, payload);
    bytes
}

/// The report of an end.
pub fn report(kind: ExitKind) -> ExitReport {
    ExitReport::of(kind)
}

pub fn exited(kind: ExitKind) -> Vec<u8> {
    report(kind).encode()
}

/// Which client of the sandbox the host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRole {
    Owner,
    Creator,
    Later,
}

fn plan() -> Plan {
    Plan::resolve(&SandboxSpec::new("hostile"), &CapabilityPolicy::new()).unwrap()
}

/// The host's settings of a sandbox.
pub fn settings() -> Sandbox {
    Sandbox::new(&plan(), Confinement::default(), EnforcementReport::new()).unwrap()
}

/// The owner's client of this agent, for a sandbox with rules for connections.
pub async fn sandbox_with_rules<F, Fut>(agent: F) -> (AgentInstance, Destroyed)
where
    F: FnOnce(FakeAgent) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let mut policy = CapabilityPolicy::new();
    let rules = EgressRules::parse(["example.org"]).unwrap();
    policy.network = Some(NetworkPolicy::Allow(rules.into_rules()));
    let plan = Plan::resolve(&SandboxSpec::new("hostile"), &policy).unwrap();
    let sandbox = Sandbox::new(&plan, Confinement::default(), EnforcementReport::new()).unwrap();
    let config = EgressConfig {
        hosts: &BTreeMap::new(),
        certificates: None,
    };
    let sandbox = sandbox.with_egress(&plan, config).expect("options");
    let destroyed = Destroyed::default();
    let (host, guest) = tokio::io::duplex(PIPE);
    let mut fake = FakeAgent::new(guest);
    let welcome = async {
        fake.wait_for(FrameKind::Hello).await.unwrap();
        fake.welcome().await;
        fake
    };
    let connecting = AgentInstance::connect(host, sandbox, Box::new(destroyed.clone()));
    let (instance, fake) = tokio::join!(connecting, welcome);
    tokio::spawn(agent(fake));
    (instance.unwrap(), destroyed)
}

/// Connects to the agent at the other end of `host`.
pub async fn connect(client: ClientRole, host: DuplexStream) -> (Result<AgentInstance>, Destroyed) {
    let destroyed = Destroyed::default();
    let isolator = Box::new(destroyed.clone());
    let instance = match client {
        ClientRole::Owner => AgentInstance::connect(host, settings(), isolator).await,
        ClientRole::Creator => AgentInstance::connect(host, settings().detached(), isolator).await,
        ClientRole::Later => {
            let sandbox = AttachedSandbox::new(&plan(), BTreeMap::new(), EnforcementReport::new());
            AgentInstance::attach(host, &ClientKey::new([9; 32]), sandbox, isolator).await
        }
    };
    (instance, destroyed)
}

/// A client of this agent, after its welcome.
pub async fn client_of<F, Fut>(client: ClientRole, agent: F) -> (AgentInstance, Destroyed)
where
    F: FnOnce(FakeAgent) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (host, guest) = tokio::io::duplex(PIPE);
    let mut fake = FakeAgent::new(guest);
    let welcome = async {
        let greeting = if client == ClientRole::Later {
            FrameKind::Attach
        } else {
            FrameKind::Hello
        };
        fake.wait_for(greeting).await.unwrap();
        fake.welcome().await;
        fake
    };
    let ((instance, destroyed), fake) = tokio::join!(connect(client, host), welcome);
    tokio::spawn(agent(fake));
    (instance.unwrap(), destroyed)
}

/// The owner's client of this agent.
pub async fn sandbox<F, Fut>(agent: F) -> (AgentInstance, Destroyed)
where
    F: FnOnce(FakeAgent) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    client_of(ClientRole::Owner, agent).await
}

pub fn request() -> ExecRequest {
    ExecRequest::new("true").timeout(Duration::from_secs(5))
}

/// Runs the request.
pub async fn exec(instance: &AgentInstance) -> ExecEnd {
    instance
        .exec(&request(), None.into(), &mut Count::default())
        .await
        .unwrap()
}

/// The reason why the outcome is unknown. Panics if it is known.
#[track_caller]
pub fn unknown_reason(end: &ExecEnd) -> &str {
    match &end.outcome {
        Outcome::Unknown { reason } => reason,
        _ => panic!("{end:?}"),
    }
}

/// Asserts that the outcome of a request is unknown for this reason, and that the sandbox is
/// destroyed.
pub async fn assert_unknown_and_destroyed(
    instance: &AgentInstance,
    destroyed: &Destroyed,
    expected: &str,
) {
    let end = exec(instance).await;
    let reason = unknown_reason(&end);
    assert!(reason.contains(expected), "{reason}");
    assert!(destroyed.soon().await, "the sandbox must be destroyed");
    assert_ended(instance).await;
}

/// Asserts that the sandbox refuses another request because it has ended.
pub async fn assert_ended(instance: &AgentInstance) {
    let refused = instance
        .exec(&request(), None.into(), &mut Count::default())
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::SandboxEnded);
}
