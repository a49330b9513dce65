//! A guest that is against its host, by way of a real engine's stream: agents that are none, lie, flood and stall, and code that goes for
//! its agent. The host stays up, knows soon, never takes it for success, and leaves nothing.
//!
//! What code does to limits (disk, processes, memory, output) is in `limits`; what it does to the kernel is in the conformance suite, which
//! runs on every backend. The host's client is tried against every breach of the protocol in its own crate; here are those that an engine's
//! stream could make worse.

use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use sandbox_agent::protocol::{ExitKind, ExitReport, Kind, MAX_PAYLOAD, Welcome, encode_frame};
use sandbox_core::{
    CapabilityPolicy, ErrorKind, ExecRequest, Outcome, SandboxHandle, SandboxSpec, unique_name,
};

use crate::family::{self, Backend};
use crate::suite::Test;
use crate::suite::engine::{PYTHON, client, client_of, config, run, spec, wait_gone};

pub const TESTS: &[Test] = &[
    ("hostile::what_is_no_agent_is_refused", no_agent),
    ("hostile::an_agent_that_says_nothing_is_given_up", silent),
    (
        "hostile::an_agent_that_breaks_the_protocol_is_ended",
        breaches,
    ),
    ("hostile::an_agent_that_stalls_holds_nobody", stalled),
    ("hostile::code_cannot_touch_its_agent", code),
    ("hostile::code_of_root_cannot_make_its_end_a_success", root),
];

/// How long the host may take to know, beyond what it has to wait for.
const SOON: Duration = Duration::from_secs(10);

/// A script instead of an agent.
struct Agent(String);

impl Agent {
    /// One that does this as soon as it is started. No other test has the same.
    fn new(script: &str) -> Self {
        let name = unique_name("agent");
        Self(family::agent(&format!("# {name}\n{script}\n")))
    }

    /// One that is greeted and welcomes, and does this when it is asked for the first execution.
    fn welcoming(script: &str) -> Self {
        let welcome = Welcome {
            split: true,
            landlock_abi: 7,
            capabilities: 0,
        };
        let welcome = printf(&frame(0, Kind::Welcome, &welcome.encode()));
        let heard = "dd bs=65536 count=1 >/dev/null 2>&1";
        Self::new(&format!("{heard}\n{welcome}\n{heard}\n{script}"))
    }

    fn program(&self) -> &[u8] {
        self.0.as_bytes()
    }

    async fn create(&self, spec: &SandboxSpec) -> sandbox_core::Result<SandboxHandle> {
        let backend = Backend::new(config().agent(self.program()));
        client_of(backend, CapabilityPolicy::new())
            .create(spec)
            .await
    }

    /// Nothing is left of it.
    async fn wait_gone(self, name: &str) {
        wait_gone(&format!("sandbox-{name}"), SOON).await;
        crate::suite::volume::remove(self.program()).await;
    }
}

fn frame(stream: u32, kind: Kind, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_frame(&mut bytes, stream, kind, false, payload);
    bytes
}

/// The shell's command that writes these bytes.
fn printf(bytes: &[u8]) -> String {
    let octal = bytes.iter().map(|byte| format!("\\{byte:03o}"));
    format!("printf '{}'", octal.collect::<String>())
}

fn exited(kind: ExitKind) -> Vec<u8> {
    ExitReport::of(kind).encode()
}

fn no_agent() -> Result<(), Failed> {
    run(async {
        for script in [
            "exec cat /dev/urandom",
            "exec cat",
            "exit 0",
            // Last words without an end.
            "cat /dev/urandom >&2",
            "yes | head -c 200000000 >&2; exit 1",
        ] {
            let (agent, spec) = (Agent::new(script), spec());
            let start = Instant::now();
            let error = agent.create(&spec).await.expect_err(script);
            let bound = SOON + WELCOME;
            assert!(start.elapsed() < bound, "{script}: {:?}", start.elapsed());
            assert_eq!(error.kind(), ErrorKind::Protocol, "{script}: {error}");
            let said = error.to_string();
            // The kept end of its last words, each byte escaped.
            assert!(said.len() < 64 * 1024, "{script}: {} bytes", said.len());
            assert!(!said.chars().any(char::is_control), "{script}: {said:?}");
            agent.wait_gone(&spec.name).await;
        }
        Ok(())
    })
}

/// What an agent may take to answer.
const WELCOME: Duration = Duration::from_secs(10);

fn silent() -> Result<(), Failed> {
    run(async {
        let (agent, spec) = (Agent::new("exec sleep 300"), spec());
        let start = Instant::now();
        let error = agent.create(&spec).await.expect_err("silence");
        assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
        let took = start.elapsed();
        assert!(took >= WELCOME && took < WELCOME + SOON, "{took:?}");
        agent.wait_gone(&spec.name).await;
        Ok(())
    })
}

fn breaches() -> Result<(), Failed> {
    run(async {
        let header = &frame(1, Kind::Stdout, &[0; MAX_PAYLOAD])[..8];
        let flood = format!(
            "while {} && head -c {MAX_PAYLOAD} /dev/zero; do :; done",
            printf(header)
        );
        let other = printf(&frame(77, Kind::Exited, &exited(ExitKind::Exited(0))));
        let early = printf(&frame(1, Kind::Exited, &exited(ExitKind::TimedOut)));
        for (what, script) in [
            ("frames that never end", flood.as_str()),
            ("an end of another stream", &format!("{other}; sleep 300")),
            ("garbage", "exec cat /dev/urandom"),
            ("its own words", "exec cat"),
            ("no word", "exit 0"),
            ("a timeout before its time", &format!("{early}; exit 0")),
            // The engine puts both on one stream.
            (
                "last words between the frames",
                "yes | head -c 100000000 >&2; exit 0",
            ),
        ] {
            let (agent, spec) = (Agent::welcoming(script), spec());
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
            // What it is told next is no success either: it may be told before the end is known.
            match sandbox.exec(&request).await {
                Ok(next) => assert!(matches!(next.outcome, Outcome::Unknown { .. }), "{next:?}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}"),
            }
            // Its handle is still there, and reads nothing any more.
            agent.wait_gone(&spec.name).await;
            drop(sandbox);
        }
        Ok(())
    })
}

fn stalled() -> Result<(), Failed> {
    run(async {
        let (agent, spec) = (Agent::welcoming("exec sleep 300"), spec());
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
        agent.wait_gone(&spec.name).await;
        Ok(())
    })
}

/// Goes for every process that is not its own, in every way that a process has; the same ways, on a child of its own, are the control.
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

fn attack(
    sandbox: &SandboxHandle,
) -> impl Future<Output = sandbox_core::Result<sandbox_core::ExecResult>> {
    let request = ExecRequest::new("python3")
        .args(["-c", ATTACK])
        .timeout(Duration::from_secs(30));
    async move { sandbox.exec(&request).await }
}

fn code() -> Result<(), Failed> {
    run(async {
        let client = client(CapabilityPolicy::new());
        let sandbox = client.create(&spec().image(PYTHON)).await?;
        let result = attack(&sandbox).await?;
        assert!(result.ok(), "{result:?}");
        let said = result.stdout_text();
        let (own, others) = said
            .lines()
            .filter(|line| *line != "over")
            .partition::<Vec<_>, _>(|line| line.starts_with("child "));
        for way in ["stop", "kill"] {
            let line = format!("child {way}");
            assert!(own.contains(&line.as_str()), "no control of {way}: {said}");
        }
        // Limits and priorities of another process are refused even where it is the code's own child.
        for way in ["limit", "nice"] {
            let line = format!("child {way}");
            assert!(!own.contains(&line.as_str()), "{way}: {said}");
        }
        assert_eq!(others, [""; 0], "its agent was touched");
        assert!(said.ends_with("over\n"), "{said}");
        let after = sandbox
            .exec(&ExecRequest::shell("echo alive; exit 7"))
            .await?;
        assert_eq!(after.stdout_text(), "alive\n");
        assert_eq!(after.exit_code(), Some(7));
        sandbox.kill().await
    })
}

/// Where the policy makes code as mighty as its agent, what it does to the agent ends the sandbox, and its host is told the truth.
fn root() -> Result<(), Failed> {
    run(async {
        let client = client(CapabilityPolicy::new());
        let spec = spec().image(PYTHON).user("0");
        let sandbox = client.create(&spec).await?;
        let start = Instant::now();
        let end = attack(&sandbox).await;
        assert!(start.elapsed() < Duration::from_secs(60), "{end:?}");
        eprintln!("code of root: {end:?}");
        // Whatever the attack did: what is said of the next is true, or nothing is.
        match sandbox.exec(&ExecRequest::shell("exit 7")).await {
            Ok(after) => assert!(
                after.exit_code() == Some(7) || matches!(after.outcome, Outcome::Unknown { .. }),
                "{after:?}"
            ),
            Err(error) => assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}"),
        }
        sandbox.kill().await?;
        wait_gone(&format!("sandbox-{}", spec.name), SOON).await;
        Ok(())
    })
}
