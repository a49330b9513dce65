//! The real agent without isolation, and helpers of the tests that use it.
#![allow(dead_code, reason = "each test program uses a part")]

pub mod relay;

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use relay::{CuttableRelay, RelayConnector};
use sandbox_agent::protocol::Confinement;
use sandbox_core::spi::{Flow, Instance, OutputSink, OutputStream, Source};
use sandbox_core::{
    CapabilityPolicy, EnforcementReport, ExecEnd, ExecRequest, Plan, Result, SandboxSpec,
};
use sandbox_host::{AgentInstance, AttachedSandbox, ClientKey, Isolator, Sandbox};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

/// The agent's process. Counts the requests to destroy it.
#[derive(Clone)]
pub struct AgentChild {
    child: Arc<Mutex<Child>>,
    destroyed: Arc<AtomicUsize>,
}

impl AgentChild {
    fn new(child: Child) -> Self {
        Self {
            child: Arc::new(Mutex::new(child)),
            destroyed: Arc::default(),
        }
    }

    pub fn destroyed(&self) -> usize {
        self.destroyed.load(Ordering::Relaxed)
    }

    /// The agent's exit status; `None` while it runs.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.child.lock().unwrap().try_wait().unwrap()
    }
}

#[async_trait]
impl Isolator for AgentChild {
    fn tier(&self) -> &str {
        "test"
    }
    async fn destroy(&self) -> Result<()> {
        self.destroy_soon();
        Ok(())
    }
    fn destroy_soon(&self) {
        self.destroyed.fetch_add(1, Ordering::Relaxed);
        // It may have been killed before.
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

/// The agent's program, as an unnamed file that exists as long as this process.
fn program() -> PathBuf {
    static FILE: OnceLock<File> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(sandbox_agent::program()).unwrap();
        file.set_permissions(Permissions::from_mode(0o755)).unwrap();
        // A file that is open for writing cannot be executed.
        File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap()
    });
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

fn sandbox() -> Sandbox {
    sandbox_under(&CapabilityPolicy::new())
}

fn sandbox_under(policy: &CapabilityPolicy) -> Sandbox {
    let spec = SandboxSpec::new("agent").workdir("/");
    let plan = Plan::resolve(&spec, policy).unwrap();
    Sandbox::new(&plan, Confinement::default(), EnforcementReport::new()).unwrap()
}

/// A sandbox that ends with its handle.
pub async fn instance() -> AgentInstance {
    instance_under(&CapabilityPolicy::new()).await
}

/// A sandbox under a policy that ends with its handle.
pub async fn instance_under(policy: &CapabilityPolicy) -> AgentInstance {
    let mut command = Command::new(program());
    command.args(["serve", "--stdio"]);
    connect(command, sandbox_under(policy)).await.0
}

async fn connect(mut command: Command, sandbox: Sandbox) -> (AgentInstance, AgentChild) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let stream = tokio::io::join(child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let process = AgentChild::new(child);
    let instance = AgentInstance::connect(stream, sandbox, Box::new(process.clone()))
        .await
        .unwrap();
    (instance, process)
}

/// A sandbox behind a relay. It ends with its handle, or when the link is down for the lease.
pub async fn linked(lease: Duration) -> (AgentInstance, AgentChild, Arc<CuttableRelay>) {
    let relay = CuttableRelay::new();
    let child = Command::new(program())
        .args(["serve", "--listen", &format!("@{}", relay.name)])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let process = AgentChild::new(child);
    let mut sandbox = sandbox();
    sandbox.settings.lease_ms = u64::try_from(lease.as_millis()).unwrap();
    let connector = Arc::new(RelayConnector(Arc::clone(&relay)));
    let instance = AgentInstance::connect_by(connector, sandbox, Box::new(process.clone()))
        .await
        .unwrap();
    (instance, process, relay)
}

/// A sandbox whose agent listens on a socket. It ends at the latest when this is dropped.
pub struct Listening {
    pub process: AgentChild,
    pub key: ClientKey,
    place: tempfile::TempDir,
    attached: AttachedSandbox,
}

impl Listening {
    /// Starts a sandbox that outlives its first client. Returns both.
    pub async fn detached() -> (Self, AgentInstance) {
        Self::start(sandbox().detached()).await
    }

    /// Starts a sandbox that ends with its first client. Returns both.
    pub async fn owned() -> (Self, AgentInstance) {
        Self::start(sandbox()).await
    }

    async fn start(sandbox: Sandbox) -> (Self, AgentInstance) {
        let place = tempfile::tempdir().unwrap();
        let listener = std::os::unix::net::UnixListener::bind(place.path().join("socket")).unwrap();
        // The shell moves the socket from standard error to the descriptor that the agent expects.
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
    pub async fn attach_with(&self, key: &ClientKey) -> Result<AgentInstance> {
        self.attach_over(self.stream().await, key).await
    }

    /// A later client over an open connection.
    pub async fn attach_over(&self, stream: UnixStream, key: &ClientKey) -> Result<AgentInstance> {
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

/// Runs the futures concurrently.
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

/// Waits until the condition holds, at most 10 s.
#[track_caller]
pub fn wait_until(what: &str, holds: impl Fn() -> bool) -> impl Future<Output = ()> {
    sandbox_testing::wait::wait_until_async(what, Duration::from_secs(10), async move || holds())
}
