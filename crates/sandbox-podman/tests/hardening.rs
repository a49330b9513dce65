//! What Podman adds to the agent's own confinement, against a real engine with the images that `cargo xtask images` builds.
//!
//! Without an engine the tests are listed as ignored, with the reason; `SANDBOX_REQUIRE=podman` makes that a failure.

use std::future::Future;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use sandbox_core::{
    ByteSize, Capability, CapabilityPolicy, ErrorKind, ExecRequest, Outcome, SandboxClient,
    SandboxSpec, unique_name,
};
use sandbox_podman::{EngineOptions, PodmanBackend, PodmanConfig};

const BUSYBOX: &str = "sandbox-test/busybox:latest";

type Test = (&'static str, fn() -> Result<(), Failed>);

const TESTS: &[Test] = &[
    ("the_profile_is_ours", profile),
    ("memory_kills_are_told_apart", memory),
    ("options_are_in_place", options),
    ("users_of_their_own", users),
    ("no_runtime_is_chosen_silently", runtime),
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let missing = missing();
    if let Some(reason) = &missing {
        eprintln!("not run: tests that need a Podman engine: {reason}");
        let required = std::env::var("SANDBOX_REQUIRE");
        if required.is_ok_and(|list| list.split(',').any(|name| name.trim() == "podman")) {
            return ExitCode::FAILURE;
        }
    }
    let trials = TESTS.iter().map(|(name, test)| {
        Trial::test(*name, *test)
            .with_kind("podman")
            .with_ignored_flag(missing.is_some())
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn run(test: impl Future<Output = sandbox_core::Result<()>>) -> Result<(), Failed> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let bounded = async { tokio::time::timeout(Duration::from_secs(120), test).await };
    match runtime.block_on(bounded) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string().into()),
        Err(_) => Err("took longer than two minutes".into()),
    }
}

fn missing() -> Option<String> {
    let (send, receive) = std::sync::mpsc::channel();
    let looked = run(async move {
        let engine = client(config())
            .diagnose()
            .await
            .into_iter()
            .find(|f| f.name == "engine");
        let reason = engine
            .filter(|engine| !engine.present)
            .map(|engine| engine.detail);
        // The receiver lives as long as this.
        let _ = send.send(reason);
        Ok(())
    });
    match (looked, receive.try_recv()) {
        (Ok(()), Ok(reason)) => reason,
        (looked, _) => Some(format!("{looked:?}")),
    }
}

fn config() -> PodmanConfig {
    PodmanConfig::default().default_image(BUSYBOX)
}

fn client(config: PodmanConfig) -> SandboxClient {
    let backend = Arc::new(PodmanBackend::new(config));
    SandboxClient::with_backend(backend, CapabilityPolicy::new()).expect("a valid policy")
}

fn spec() -> SandboxSpec {
    SandboxSpec::new(unique_name("test"))
}

/// The engine that the backend finds: the client without it has containers of its own.
fn socket() -> String {
    let folder = match std::fs::metadata("/proc/self").map(|own| own.uid()) {
        Ok(0) => "/run".to_owned(),
        _ => std::env::var("XDG_RUNTIME_DIR").expect("a runtime folder"),
    };
    format!("unix://{folder}/podman/podman.sock")
}

fn profile() -> Result<(), Failed> {
    run(async {
        let sandbox = client(config()).create(&spec()).await?;
        let name = format!("sandbox-{}", sandbox.name());
        // A process that the engine itself starts has the container's profile alone. Podman's own would let this one through.
        let engine = |command: &[&str]| {
            let mut run = Command::new("podman");
            run.args(["--url", &socket(), "exec", &name]).args(command);
            run.output().expect("podman")
        };
        let control = engine(&["true"]);
        let attack = engine(&["unshare", "-U", "true"]);
        let entry = sandbox
            .enforcement()
            .get(Capability::Privileges)
            .map(ToString::to_string);
        sandbox.kill().await?;
        assert!(control.status.success(), "{control:?}");
        assert!(!attack.status.success(), "{attack:?}");
        let words = String::from_utf8_lossy(&attack.stderr);
        assert!(words.contains("not permitted"), "{words}");
        let entry = entry.expect("an entry");
        assert!(
            entry.contains("seccomp profile of the container"),
            "{entry}"
        );
        Ok(())
    })
}

/// Podman's own word is `OOMKilled: false`, always.
fn memory() -> Result<(), Failed> {
    run(async {
        let client = client(config());
        let sandbox = match client.create(&spec().memory(ByteSize::mib(64))).await {
            Ok(sandbox) => sandbox,
            // An engine without the rights for limits: a limit that was written is refused, not dropped.
            Err(error) if error.kind() == ErrorKind::NotEnforceable => {
                let sandbox = client.create(&spec()).await?;
                let entry = sandbox
                    .enforcement()
                    .get(Capability::Memory)
                    .map(|entry| entry.status());
                assert_eq!(entry, Some("unenforced"));
                let killed = sandbox.exec(&ExecRequest::shell("kill -9 $$")).await?;
                assert_eq!(
                    killed.outcome,
                    Outcome::Signaled { signal: 9 },
                    "{killed:?}"
                );
                return sandbox.kill().await;
            }
            Err(error) => return Err(error),
        };
        let hungry = ExecRequest::new("tail").arg("/dev/zero");
        let result = sandbox.exec(&hungry).await?;
        assert_eq!(result.outcome, Outcome::OutOfMemory, "{result:?}");
        let child = sandbox
            .exec(&ExecRequest::shell("tail /dev/zero; exit 3"))
            .await?;
        assert_eq!(child.outcome, Outcome::Exited { code: 3 }, "{child:?}");
        assert!(!child.denials.is_empty(), "{child:?}");
        let killed = sandbox.exec(&ExecRequest::shell("kill -9 $$")).await?;
        assert_eq!(
            killed.outcome,
            Outcome::Signaled { signal: 9 },
            "{killed:?}"
        );
        sandbox.kill().await
    })
}

fn options() -> Result<(), Failed> {
    run(async {
        let options = EngineOptions::default()
            .masked_path("/proc/uptime")
            .oom_score_adj(700)
            .hostname("grader");
        let sandbox = client(config().options(options)).create(&spec()).await?;
        let request =
            ExecRequest::shell("hostname; cat /proc/uptime; cat /proc/self/oom_score_adj");
        let result = sandbox.exec(&request).await?;
        sandbox.kill().await?;
        let said = result.stdout_text();
        let lines = said.lines().collect::<Vec<_>>();
        assert_eq!(lines.len(), 2, "the uptime is empty: {said}");
        assert_eq!(lines[0], "grader");
        assert!(
            lines[1]
                .parse::<u32>()
                .is_ok_and(|adjustment| adjustment >= 700),
            "{said}"
        );
        Ok(())
    })
}

fn users() -> Result<(), Failed> {
    run(async {
        let options = EngineOptions::default().private_users();
        match client(config().options(options)).create(&spec()).await {
            Ok(sandbox) => {
                let result = sandbox
                    .exec(&ExecRequest::shell("cat /proc/self/uid_map; id -u"))
                    .await?;
                sandbox.kill().await?;
                let said = result.stdout_text();
                assert!(said.ends_with("\n1000\n"), "{result:?}");
                let first = said.split_whitespace().nth(1).unwrap_or_default();
                assert!(first.parse::<u32>().is_ok_and(|user| user > 0), "{said}");
            }
            // An engine without users to give away says so.
            Err(error) => assert!(
                matches!(
                    error.kind(),
                    ErrorKind::Unsupported | ErrorKind::SetupFailed
                ),
                "{error}"
            ),
        }
        Ok(())
    })
}

fn runtime() -> Result<(), Failed> {
    run(async {
        let error = client(config().runtime("runsc"))
            .create(&spec())
            .await
            .expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::SandboxUnavailable, "{error}");
        assert!(error.context().contains("runtime"), "{error}");
        Ok(())
    })
}
