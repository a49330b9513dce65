//! The real agent without any isolation around it, and what tests ask of it.
#![allow(dead_code, reason = "each test program uses a part")]

pub mod way;

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sandbox_agent::protocol::Confinement;
use sandbox_core::spi::{Flow, Instance, OutputSink, OutputStream, Source};
use sandbox_core::{
    CapabilityPolicy, EnforcementReport, ExecEnd, ExecRequest, Plan, Result, SandboxSpec,
};
use sandbox_host::{AgentInstance, AttachedSandbox, Isolator, Key, Sandbox};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

/// The agent's process, which counts how often it was to be destroyed.
#[derive(Clone)]
pub struct Process {
    child: Arc<Mutex<Child>>,
    destroyed: Arc<AtomicUsize>,
}

impl Process {
    fn new(child: Child) -> Self {
        Self {
            child: Arc::new(Mutex::new(child)),
            destroyed: Arc::default(),
        }
    }

    pub fn destroyed(&self) -> usize {
        self.destroyed.load(Ordering::Relaxed)
    }

    /// How the agent has ended, if it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.child.lock().unwrap().try_wait().unwrap()
    }
}

#[async_trait]
impl Isolator for Process {
    fn tier(&self) -> &str {
        "test"
    }
    async fn destroy(&self) -> Result<()> {
        self.destroy_soon();
        Ok(())
    }
    fn destroy_soon(&self) {
        self.destroyed.fetch_add(1, Ordering::Relaxed);
        // A second kill of the same child is harmless.
        let _ = self.child.lock().unwrap().start_kill();
    }
    async fn oom_kills(&self) -> Option<u64> {
        None
    }
    async fn post_mortem(&self) -> Option<String> {
        None
    }
}

#[derive(Default)]
pub struct Kept {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

#[async_trait]
impl OutputSink for Kept {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        match stream {
            OutputStream::Stdout => self.stdout.extend_from_slice(bytes),
            OutputStream::Stderr => self.stderr.extend_from_slice(bytes),
        }
        Flow::Continue
    }
}

/// The agent as a file that has no name, and goes with this process.
fn program() -> PathBuf {
    static FILE: OnceLock<File> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(sandbox_agent::program()).unwrap();
        file.set_permissions(Permissions::from_mode(0o755)).unwrap();
        // What is open for writing cannot be executed.
        File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap()
    });
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

fn sandbox() -> Sandbox {
    let spec = SandboxSpec::new("agent").workdir("/");
    let plan = Plan::resolve(&spec, &CapabilityPolicy::new()).unwrap();
    Sandbox::new(&plan, Confinement::default(), EnforcementReport::new()).unwrap()
}

/// A sandbox that ends with its handle.
pub async fn instance() -> AgentInstance {
    let mut command = Command::new(program());
    command.args(["serve", "--stdio"]);
    connect(command, sandbox()).await.0
}

async fn connect(mut command: Command, sandbox: Sandbox) -> (AgentInstance, Process) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let stream = tokio::io::join(child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let process = Process::new(child);
    let instance = AgentInstance::connect(stream, sandbox, Box::new(process.clone()))
        .await
        .unwrap();
    (instance, process)
}

/// A sandbox that is reached by a way that may be cut, and ends with its handle or after this lease.
pub async fn linked(lease: Duration) -> (AgentInstance, Process, Arc<way::Way>) {
    let way = way::Way::new();
    let child = Command::new(program())
        .args(["serve", "--listen", &format!("@{}", way.name)])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let process = Process::new(child);
    let mut sandbox = sandbox();
    sandbox.settings.lease_ms = u64::try_from(lease.as_millis()).unwrap();
    let reach = Arc::new(way::Through(Arc::clone(&way)));
    let instance = AgentInstance::connect_by(reach, sandbox, Box::new(process.clone()))
        .await
        .unwrap();
    (instance, process, way)
}

/// A sandbox whose agent listens. It ends at the latest with this value.
pub struct Listening {
    pub process: Process,
    pub key: Key,
    place: tempfile::TempDir,
    attached: AttachedSandbox,
}

impl Listening {
    /// Starts one that outlives its first client, which comes with it.
    pub async fn detached() -> (Self, AgentInstance) {
        Self::start(sandbox().detached()).await
    }

    /// Starts one that ends with its first client, which comes with it.
    pub async fn owned() -> (Self, AgentInstance) {
        Self::start(sandbox()).await
    }

    async fn start(sandbox: Sandbox) -> (Self, AgentInstance) {
        let place = tempfile::tempdir().unwrap();
        let listener = std::os::unix::net::UnixListener::bind(place.path().join("socket")).unwrap();
        // The shell puts the socket, which it has for standard error, where the agent is told to find it.
        let mut command = Command::new("/bin/sh");
        command
            .args([
                "-c",
                "exec \"$0\" serve --stdio --listen-fd 5 5>&2 2>/dev/null",
            ])
            .arg(program())
            .stderr(Stdio::from(OwnedFd::from(listener)));
        let key = sandbox.settings.key.clone();
        let attached = AttachedSandbox::from(sandbox.clone());
        let (instance, process) = connect(command, sandbox).await;
        let listening = Self {
            process,
            key,
            place,
            attached,
        };
        (listening, instance)
    }

    /// A new connection to the agent.
    pub async fn stream(&self) -> UnixStream {
        UnixStream::connect(self.place.path().join("socket"))
            .await
            .unwrap()
    }

    /// A later client.
    pub async fn attach(&self) -> AgentInstance {
        self.attach_with(&self.key).await.unwrap()
    }

    /// A later client with this key.
    pub async fn attach_with(&self, key: &Key) -> Result<AgentInstance> {
        self.attach_over(self.stream().await, key).await
    }

    /// The same over a connection that is there already.
    pub async fn attach_over(&self, stream: UnixStream, key: &Key) -> Result<AgentInstance> {
        let isolator = Box::new(self.process.clone());
        AgentInstance::attach(stream, key, self.attached.clone(), isolator).await
    }
}

pub fn shell(script: &str) -> ExecRequest {
    ExecRequest::shell(script).timeout(Duration::from_secs(20))
}

pub async fn run(
    instance: &AgentInstance,
    request: &ExecRequest,
    stdin: Option<Source>,
) -> (ExecEnd, Kept) {
    let mut kept = Kept::default();
    let end = instance
        .exec(request, stdin.into(), &mut kept)
        .await
        .unwrap();
    (end, kept)
}

pub fn source(bytes: Vec<u8>) -> Source {
    Box::new(std::io::Cursor::new(bytes))
}

/// Waits for all of them at once.
pub async fn all(futures: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut pending: Vec<_> = futures.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        pending.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if pending.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}

/// Waits until something holds, at most 10 s.
#[track_caller]
pub fn wait_until(what: &str, holds: impl Fn() -> bool) -> impl Future<Output = ()> {
    let what = what.to_owned();
    async move {
        let start = Instant::now();
        while !holds() {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "not in 10 s: {what}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
