//! Hostile agents and code, over a backend's real stream: programs that are not the agent, that
//! flood, stall or send false reports, and code that attacks its agent. The host keeps running,
//! notices in time, never reports success, and leaves nothing behind.
//!
//! Code that exceeds limits is tested in `limits`, and code that attacks the kernel in the
//! conformance suite. The tests of `sandbox-host` cover every breach of the protocol; these cover
//! breaches that depend on the backend's stream.

use std::time::{Duration, Instant};

use sandbox_agent::protocol::{
    ExitKind, ExitReport, FrameKind, MAX_PAYLOAD, Welcome, encode_frame,
};
use sandbox_core::spi::unique_name;
use sandbox_core::{CapabilityPolicy, ErrorKind, ExecRequest, Outcome, SandboxHandle, SandboxSpec};

use super::{ContractTest, PYTHON, TestBackend, TestResult, client_of, run};

pub const TESTS: &[ContractTest] = &[
    (
        "hostile::a_program_that_is_no_agent_or_silent_is_refused",
        no_agent,
    ),
    (
        "hostile::an_agent_that_breaks_the_protocol_is_ended",
        breaches,
    ),
    ("hostile::a_stalled_agent_blocks_no_caller", stalled),
    ("hostile::code_cannot_touch_its_agent", code),
    ("hostile::code_of_root_cannot_fake_success", root),
];

/// The longest that the host may take to notice, beyond its own timeouts.
const SOON: Duration = Duration::from_secs(30);

/// A script that a backend starts instead of the agent.
struct ScriptedAgent {
    backend: &'static dyn TestBackend,
    script: String,
}

impl ScriptedAgent {
    /// Runs `script` as soon as it starts. Its name is unique, so that no other test has the same
    /// program.
    fn new(backend: &'static dyn TestBackend, script: &str) -> Self {
        let name = unique_name("agent");
        let script = backend.agent_script(&format!("# {name}\n{script}\n"));
        Self { backend, script }
    }

    /// Answers the handshake, and runs `script` at the request for the first execution.
    fn welcoming(backend: &'static dyn TestBackend, script: &str) -> Self {
        let welcome = Welcome {
            split: true,
            landlock_abi: 7,
            ..Welcome::default()
        };
        let welcome = printf(&frame(0, FrameKind::Welcome, &welcome.encode()));
        let read_frame = "dd bs=65536 count=1 >/dev/null 2>&1";
        Self::new(
            backend,
            &format!("{read_frame}\n{welcome}\n{read_frame}\n{script}"),
        )
    }

    fn program(&self) -> &[u8] {
        self.script.as_bytes()
    }

    async fn create(&self, spec: &SandboxSpec) -> sandbox_core::Result<SandboxHandle> {
        let backend = self.backend.backend_with_agent(self.program());
        client_of(backend, CapabilityPolicy::new())
            .create(spec)
            .await
    }

    /// Waits until the sandbox is gone, and removes the program.
    async fn wait_removed(self, name: &str) {
        self.backend
            .wait_removed(&format!("sandbox-{name}"), SOON)
            .await;
        self.backend.remove_agent(self.program()).await;
    }
}

fn frame(stream: u32, kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_frame(&mut bytes, stream, kind, false, payload);
    bytes
}

/// A shell command that writes these bytes.
fn printf(bytes: &[u8]) -> String {
    let octal = bytes.iter().map(|byte| format!("\\{byte:03o}"));
    format!("printf '{}'", octal.collect::<String>())
}

fn exited(kind: ExitKind) -> Vec<u8> {
    ExitReport::of(kind).encode()
}

fn no_agent(backend: &'static dyn TestBackend) -> TestResult {
    let scripts = [
        "exec cat /dev/urandom",
        "exec cat",
        "exit 0",
        // Endless standard error.
        "cat /dev/urandom >&2",
        "yes | head -c 200000000 >&2; exit 1",
    ];
    run(async {
        // The timeout is long, so it passes meanwhile.
        let silent = tokio::spawn(assert_silence_is_an_error(backend));
        // Some at once, because pods take long to start and to end.
        for some in scripts.chunks(3) {
            let refused = some
                .iter()
                .map(|&script| tokio::spawn(assert_is_no_agent(backend, script)));
            for refused in refused.collect::<Vec<_>>() {
                refused.await.expect("no panic");
            }
        }
        silent.await.expect("no panic");
        Ok(())
    })
}

async fn assert_is_no_agent(backend: &'static dyn TestBackend, script: &'static str) {
    let (agent, spec) = (ScriptedAgent::new(backend, script), backend.spec());
    let start = Instant::now();
    let error = agent.create(&spec).await.expect_err(script);
    let bound = SOON + WELCOME;
    assert!(start.elapsed() < bound, "{script}: {:?}", start.elapsed());
    assert_eq!(error.kind(), ErrorKind::Protocol, "{script}: {error}");
    let message = error.to_string();
    // The message has the end of standard error, each byte escaped.
    assert!(
        message.len() < 64 * 1024,
        "{script}: {} bytes",
        message.len()
    );
    assert!(
        !message.chars().any(char::is_control),
        "{script}: {message:?}"
    );
    agent.wait_removed(&spec.name).await;
}

/// The timeout of the handshake.
const WELCOME: Duration = Duration::from_secs(10);

async fn assert_silence_is_an_error(backend: &'static dyn TestBackend) {
    let agent = ScriptedAgent::new(backend, "exec sleep 300");
    let spec = backend.spec();
    let start = Instant::now();
    let error = agent.create(&spec).await.expect_err("silence");
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    let took = start.elapsed();
    assert!(took >= WELCOME && took < WELCOME + SOON, "{took:?}");
    agent.wait_removed(&spec.name).await;
}

fn breaches(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let header = &frame(1, FrameKind::Stdout, &[0; MAX_PAYLOAD])[..8];
        let flood = format!(
            "while {} && head -c {MAX_PAYLOAD} /dev/zero; do :; done",
            printf(header)
        );
        let other = printf(&frame(77, FrameKind::Exited, &exited(ExitKind::Exited(0))));
        let early = printf(&frame(1, FrameKind::Exited, &exited(ExitKind::TimedOut)));
        for (what, script) in [
            ("frames that never end", flood.as_str()),
            ("an end of another stream", &format!("{other}; sleep 300")),
            ("garbage", "exec cat /dev/urandom"),
            ("an echo of the host's frames", "exec cat"),
            ("nothing", "exit 0"),
            (
                "a timeout before the time limit",
                &format!("{early}; exit 0"),
            ),
            // An engine sends both over one stream.
            (
                "standard error between the frames",
                "yes | head -c 100000000 >&2; exit 0",
            ),
        ] {
            let (agent, spec) = (ScriptedAgent::welcoming(backend, script), backend.spec());
            let sandbox = agent.create(&spec).await?;
            let start = Instant::now();
            let request = ExecRequest::new("true").timeout(Duration::from_secs(60));
            let result = sandbox.exec(&request).await?;
            assert!(start.elapsed() < 2 * SOON, "{what}: {:?}", start.elapsed());
            eprintln!("{what}: {:?}", result.outcome);
            assert!(
                matches!(result.outcome, Outcome::Unknown { .. }),
                "{what}: {:?}",
                result.outcome
            );
            // The next execution does not succeed either. It may start before the end of the
            // sandbox is known.
            match sandbox.exec(&request).await {
                Ok(next) => assert!(matches!(next.outcome, Outcome::Unknown { .. }), "{next:?}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}"),
            }
            // The handle exists, but reads nothing more.
            agent.wait_removed(&spec.name).await;
            drop(sandbox);
        }
        Ok(())
    })
}

fn stalled(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let (agent, spec) = (
            ScriptedAgent::welcoming(backend, "exec sleep 300"),
            backend.spec(),
        );
        let sandbox = agent.create(&spec).await?;
        let start = Instant::now();
        let request = ExecRequest::new("true").timeout(Duration::from_secs(1));
        let end = sandbox.exec(&request).await;
        eprintln!("stalled: {:?} after {:?}", end, start.elapsed());
        assert!(start.elapsed() < 3 * SOON, "{:?}", start.elapsed());
        if let Ok(result) = end {
            assert!(
                matches!(result.outcome, Outcome::Unknown { .. } | Outcome::TimedOut),
                "{result:?}"
            );
        }
        let start = Instant::now();
        sandbox.kill().await?;
        assert!(start.elapsed() < 2 * SOON, "{:?}", start.elapsed());
        agent.wait_removed(&spec.name).await;
        Ok(())
    })
}

/// Attacks every process except itself with each system call that can affect another process. The
/// same attacks on its own child are the control.
const ATTACK: &str = r#"
import ctypes, os, resource, signal, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*words):
    ctypes.set_errno(0)
    if libc.syscall(*words) < 0:
        raise OSError(ctypes.get_errno(), "refused")
def write(path, content):
    with open(path, "wb", buffering=0) as file:
        file.write(content)
def ways(pid):
    yield "limit", lambda: resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
    yield "files", lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (1, 1))
    yield "nice", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19)
    yield "adjust", lambda: write(f"/proc/{pid}/oom_score_adj", b"1000")
    yield "memory", lambda: open(f"/proc/{pid}/mem", "r+b").close()
    for descriptor in (0, 1, 2):
        yield f"descriptor {descriptor}", lambda: write(f"/proc/{pid}/fd/{descriptor}", b"\xff" * 100000)
    yield "seize", lambda: call(101, 0x4206, pid, 0, 0)
    yield "stop", lambda: os.kill(pid, signal.SIGSTOP)
    yield "kill", lambda: os.kill(pid, signal.SIGKILL)
def attack(pid):
    for name, way in ways(pid):
        try:
            way()
            print(pid if pid != child.pid else "child", name, flush=True)
        except (OSError, ValueError):
            pass
child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
attack(child.pid)
child.wait()
child.pid = None
for entry in os.listdir("/proc"):
    if entry.isdigit() and int(entry) != os.getpid():
        attack(int(entry))
print("over")
"#;

/// Runs the attack on every process that code finds. Needs Python.
#[must_use]
pub fn attack_request() -> ExecRequest {
    ExecRequest::new("python3")
        .args(["-c", ATTACK])
        .timeout(Duration::from_secs(30))
}

fn code(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let client = backend.client(CapabilityPolicy::new());
        let sandbox = client.create(&backend.spec().image(PYTHON)).await?;
        assert_agent_is_untouchable(&sandbox, attack_request()).await?;
        sandbox.kill().await
    })
}

/// Asserts that code cannot touch its agent. The `request` runs [`attack_request`], as any user.
pub async fn assert_agent_is_untouchable(
    sandbox: &SandboxHandle,
    request: ExecRequest,
) -> sandbox_core::Result<()> {
    let result = sandbox.exec(&request).await?;
    assert!(result.success(), "{result:?}");
    let printed = result.stdout_text();
    let (own, others) = printed
        .lines()
        .filter(|line| *line != "over")
        .partition::<Vec<_>, _>(|line| line.starts_with("child "));
    for way in ["stop", "kill"] {
        let line = format!("child {way}");
        assert!(
            own.contains(&line.as_str()),
            "no control of {way}: {printed}"
        );
    }
    // Setting limits and priorities of another process is denied, also for the code's child.
    for way in ["limit", "nice"] {
        let line = format!("child {way}");
        assert!(!own.contains(&line.as_str()), "{way}: {printed}");
    }
    assert_eq!(others, [""; 0], "code affected its agent");
    assert!(printed.ends_with("over\n"), "{printed}");
    let after = sandbox
        .exec(&ExecRequest::shell("echo alive; exit 7"))
        .await?;
    assert_eq!(after.stdout_text(), "alive\n");
    assert_eq!(after.exit_code(), Some(7));
    Ok(())
}

/// Where the policy gives code the agent's privileges, an attack on the agent ends the sandbox, and
/// the host reports that.
fn root(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let client = backend.client(CapabilityPolicy::new());
        let spec = backend.spec().image(PYTHON).user("0");
        let sandbox = client.create(&spec).await?;
        let start = Instant::now();
        let end = sandbox.exec(&attack_request()).await;
        assert!(start.elapsed() < Duration::from_secs(60), "{end:?}");
        eprintln!("code of root: {end:?}");
        // After the attack, the outcome of the next execution is correct or unknown.
        match sandbox.exec(&ExecRequest::shell("exit 7")).await {
            Ok(after) => assert!(
                after.exit_code() == Some(7) || matches!(after.outcome, Outcome::Unknown { .. }),
                "{after:?}"
            ),
            Err(error) => assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}"),
        }
        sandbox.kill().await?;
        backend
            .wait_removed(&format!("sandbox-{}", spec.name), SOON)
            .await;
        Ok(())
    })
}
