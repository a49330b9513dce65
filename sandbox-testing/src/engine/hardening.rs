//! What the engine adds to the agent's confinement, and images that try to weaken it.

use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bollard::query_parameters::RemoveImageOptions;
use futures_util::StreamExt;
use sandbox_container::{EngineOptions, PathOptions, Ulimit};
use sandbox_core::spi::unique_name;
use sandbox_core::{
    ByteSize, CapabilityPolicy, ErrorKind, ExecEvent, ExecRequest, Outcome, SandboxClient, Stdin,
};
use tokio::net::{TcpListener, UnixStream};

use super::features::unenforceable_limits;
use super::{EngineTest, TestEngine};
use crate::contract::{
    PYTHON, TestResult, assert_memory_kills_are_attributed, client_of, output, run, shell,
};
use crate::users::is_root;

pub const TESTS: &[EngineTest] = &[
    ("hardening::the_agent_has_the_seccomp_profile_too", profile),
    ("hardening::the_engine_learns_no_secret", secret),
    ("hardening::an_image_gives_no_privileges", image),
    ("hardening::options_are_in_place", options),
    ("hardening::options_never_loosen", loosening),
    ("hardening::memory_kills_are_attributed_over_tcp", afar),
    ("hardening::a_separate_kernel_is_reported", gvisor),
    (
        "hardening::containers_have_subordinate_users_where_available",
        users,
    ),
];

/// A field of `/proc/PID/status`.
fn field(status: &str, name: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in {status}"))
        .trim()
        .to_owned()
}

/// Executes a program in a container through the engine, and returns its exit code.
async fn exec_code(engine: &'static TestEngine, container: &str, command: &[&str]) -> Option<i64> {
    let api = engine.api();
    let options = CreateExecOptions {
        attach_stdout: Some(true),
        cmd: Some(command.to_vec()),
        ..CreateExecOptions::default()
    };
    let process = api.create_exec(container, options).await;
    let process = process.expect("a process").id;
    let started = api.start_exec(&process, None::<StartExecOptions>).await;
    if let StartExecResults::Attached { mut output, .. } = started.expect("started") {
        while output.next().await.is_some() {}
    }
    let ended = api.inspect_exec(&process).await;
    ended.expect("its end").exit_code
}

fn profile(engine: &'static TestEngine) -> TestResult {
    run(async {
        let sandbox = engine.sandbox().await?;
        let container = engine
            .api()
            .inspect_container(&format!("sandbox-{}", sandbox.name()), None)
            .await
            .expect("container");
        // A process that the engine starts has only the container's seccomp profile. The engine's
        // default profile may allow this call.
        let name = container.id.expect("an id");
        let control = exec_code(engine, &name, &["true"]).await;
        let attack = exec_code(engine, &name, &["unshare", "-U", "true"]).await;
        assert_eq!((control, attack), (Some(0), Some(1)), "a user namespace");
        let pid = container.state.and_then(|state| state.pid).expect("pid");
        let agent = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the agent");
        assert_eq!(
            field(&agent, "Seccomp:"),
            "2",
            "the agent installs none for itself"
        );
        let code = output(&sandbox, "cat /proc/self/status").await?;
        let filters = |status: &str| {
            field(status, "Seccomp_filters:")
                .parse::<u32>()
                .expect("a number")
        };
        assert!(
            filters(&code) > filters(&agent),
            "an execution has its own on top"
        );
        let entry = sandbox
            .enforcement()
            .get(sandbox_core::Capability::Privileges);
        let entry = entry.expect("an entry");
        let profile = sandbox_core::Mechanism::ContainerSeccompProfile;
        assert!(entry.mechanisms().contains(&profile), "{entry}");
        sandbox.kill().await
    })
}

fn secret(engine: &'static TestEngine) -> TestResult {
    run(async {
        let client = engine.client(CapabilityPolicy::new().secret("TOKEN"));
        let sandbox = client.create(&engine.spec().secret("TOKEN")).await?;
        let canary = unique_name("canary");
        let request = ExecRequest::shell("echo ready; exec sleep 50");
        let request = request.secret("TOKEN", canary.as_str());
        let mut execution = sandbox.start(&request, Stdin::Null).await?;
        while let Some(event) = execution.next_event().await? {
            if matches!(event, ExecEvent::Stdout(_)) {
                break;
            }
        }
        // The control: another execution reads it from the program's own variables.
        let known = output(&sandbox, "cat /proc/[0-9]*/environ 2>/dev/null; true").await?;
        assert!(known.contains(&canary), "the program has it");
        let name = format!("sandbox-{}", sandbox.name());
        let shown = engine.api().inspect_container(&name, None).await;
        let shown = format!("{:?}", shown.expect("container"));
        assert!(shown.contains(&name) && !shown.contains(&canary), "{shown}");
        execution.kill().await;
        sandbox.kill().await
    })
}

fn image(engine: &'static TestEngine) -> TestResult {
    run(async {
        let api = engine.api();
        // An image with variables and a set-user-ID program of root.
        let set = "mkdir /trap && cp $(readlink -f $(command -v python3)) /trap/python && chmod 4755 /trap/python";
        let image = engine
            .image_of(PYTHON, set, "ENV TRAP=sprung LD_BIND_NOW=1")
            .await;
        // The control: in a plain container the program runs as root.
        let root = "import os; exit(os.geteuid())";
        let control = engine
            .run_container(&image, "1000:1000", &["/trap/python", "-c", root])
            .await;
        api.remove_container(&control, None)
            .await
            .expect("control is removed");
        let found = async {
            let client = engine.client(CapabilityPolicy::new());
            let sandbox = client.create(&engine.spec().image(&image)).await?;
            let environment = output(&sandbox, "env; cat /proc/self/environ").await?;
            let who = "ls -l /trap/python; /trap/python -c 'import os; print(os.geteuid())'";
            let user = output(&sandbox, who).await?;
            let others = shell(&sandbox, "cat /proc/1/environ").await?;
            sandbox.kill().await?;
            sandbox_core::Result::Ok((environment, user, others))
        };
        let found = found.await;
        api.remove_image(&image, None::<RemoveImageOptions>, None)
            .await
            .expect("image");
        let (environment, user, others) = found?;
        assert!(
            !environment.contains("TRAP") && !environment.contains("LD_BIND_NOW"),
            "{environment}"
        );
        assert!(user.starts_with("-rwsr-xr-x"), "the trap is set: {user}");
        assert!(user.ends_with("\n1000\n"), "{user}");
        assert!(
            !others.success() && !others.stdout_text().contains("TRAP"),
            "{others:?}"
        );
        Ok(())
    })
}

/// A client whose sandboxes have these options.
fn with(engine: &'static TestEngine, options: EngineOptions) -> SandboxClient {
    let backend = engine.backend(engine.config().options(options));
    client_of(backend, CapabilityPolicy::new())
}

fn options(engine: &'static TestEngine) -> TestResult {
    run(async {
        let mut options = EngineOptions::default()
            .ulimit(Ulimit::FileSize, 1 << 20)
            .masked_path("/proc/uptime")
            .processors("0")
            .cpu_shares(512)
            .oom_score_adj(700)
            .hostname("grader");
        if let Some(reason) = unenforceable_limits(engine).await {
            let error = with(engine, options.clone()).create(&engine.spec()).await;
            let error = error.expect_err(&reason);
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            options.cpu_shares = None;
            options.processors = None;
        }
        let bounds_processors = options.processors.is_some();
        let made_read_only = EngineOptions::default().read_only_path("/proc/tty");
        let takes_lists = engine.family.path_options == PathOptions::Lists;
        if takes_lists {
            options.read_only_paths = made_read_only.read_only_paths;
        } else {
            let error = with(engine, made_read_only).create(&engine.spec()).await;
            let error = error.expect_err("no such option");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        }
        let sandbox = with(engine, options).create(&engine.spec()).await?;
        let script = "hostname; cat /proc/uptime; cat /proc/self/oom_score_adj; grep Cpus_allowed_list /proc/self/status; ulimit -f";
        let printed = output(&sandbox, script).await?;
        let lines = printed.lines().collect::<Vec<_>>();
        assert_eq!(lines[0], "grader");
        let adjustment: u32 = lines[1].parse().expect("the uptime is empty");
        assert!(adjustment >= 700, "{printed}");
        assert_eq!(lines[2].ends_with("\t0"), bounds_processors, "{printed}");
        assert_ne!(lines[3], "unlimited");
        let tty = shell(&sandbox, "grep -q ' /proc/tty ro' /proc/self/mountinfo").await?;
        assert_eq!(tty.success(), takes_lists, "{tty:?}");
        // The engine's own hidden paths stay hidden.
        assert_eq!(
            output(
                &sandbox,
                "cat /proc/timer_list /proc/keys 2>/dev/null | wc -c"
            )
            .await?
            .trim(),
            "0"
        );
        sandbox.kill().await
    })
}

fn loosening(engine: &'static TestEngine) -> TestResult {
    run(async {
        for options in [
            EngineOptions::default().apparmor("unconfined"),
            EngineOptions::default().cpu_shares(60_000),
        ] {
            let error = with(engine, options).create(&engine.spec()).await;
            let error = error.expect_err("refused");
            assert!(
                matches!(
                    error.kind(),
                    ErrorKind::InvalidSpec | ErrorKind::Unsupported
                ),
                "{error}"
            );
            assert!(error.context().starts_with("engine option"), "{error}");
        }
        Ok(())
    })
}

/// An engine behind TCP may be on another host, so the backend reads nothing from this host's
/// kernel.
fn afar(engine: &'static TestEngine) -> TestResult {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listener");
        let address = listener.local_addr().expect("address");
        let relay = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let Ok(mut far) = UnixStream::connect(engine.socket()).await else {
                        return;
                    };
                    // Either side may close first.
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        let backend = engine.backend(engine.config().host(format!("tcp://{address}")));
        let client = client_of(backend, CapabilityPolicy::new());
        let sandbox = client
            .create(&engine.spec().memory(ByteSize::mib(64)))
            .await?;
        assert_memory_kills_are_attributed(&sandbox).await?;
        sandbox.kill().await?;
        relay.abort();
        Ok(())
    })
}

fn users(engine: &'static TestEngine) -> TestResult {
    run(async {
        let created = with(engine, EngineOptions::default().private_users())
            .create(&engine.spec())
            .await;
        // Podman takes the subordinate users of the name `containers`.
        let subordinate = std::fs::read_to_string("/etc/subuid").unwrap_or_default();
        let has_users = subordinate
            .lines()
            .any(|line| line.starts_with("containers:"));
        if !(engine.family.private_users && is_root() && has_users) {
            let error = created.expect_err("no subordinate users");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.fix().is_some(), "{error}");
            return Ok(());
        }
        let sandbox = created?;
        let printed = output(&sandbox, "cat /proc/self/uid_map; id -u").await?;
        sandbox.kill().await?;
        assert!(printed.ends_with("\n1000\n"), "{printed}");
        let first = printed.split_whitespace().nth(1).unwrap_or_default();
        assert!(first.parse::<u32>().is_ok_and(|user| user > 0), "{printed}");
        Ok(())
    })
}

/// Uses gVisor's runtime where the engine has it and accepts it per request. Otherwise the error
/// says why not.
fn gvisor(engine: &'static TestEngine) -> TestResult {
    run(async {
        let runtimes = engine.api().info().await.expect("info").runtimes;
        let has = runtimes.is_some_and(|known| known.contains_key("runsc"));
        let has = has && engine.family.chooses_runtime;
        let backend = engine.backend(engine.config().runtime("runsc"));
        let created = client_of(backend, CapabilityPolicy::new())
            .create(&engine.spec())
            .await;
        if !has {
            let error = created.expect_err("no such runtime");
            assert_eq!(error.kind(), ErrorKind::SandboxUnavailable, "{error}");
            assert!(error.context().contains("runtime"), "{error}");
            return Ok(());
        }
        let sandbox = created?;
        let entry = |capability| {
            sandbox
                .enforcement()
                .get(capability)
                .expect("an entry")
                .to_string()
        };
        let privileges = entry(sandbox_core::Capability::Privileges);
        assert!(privileges.contains("runsc"), "{privileges}");
        let pids = entry(sandbox_core::Capability::Pids);
        assert!(pids.contains("counts threads of runsc"), "{pids}");
        let version = output(&sandbox, "cat /proc/version; id -u; ls -d /sys/class/net/*").await?;
        assert!(
            version.contains("gVisor") || version.contains("4.4.0"),
            "{version}"
        );
        let start = std::time::Instant::now();
        let failed = shell(&sandbox, "exit 7").await?;
        assert_eq!(failed.outcome, Outcome::Exited { code: 7 }, "{failed:?}");
        assert!(
            start.elapsed() < std::time::Duration::from_secs(30),
            "{:?}",
            start.elapsed()
        );
        let request = ExecRequest::shell("setsid sleep 1001 & sleep 1002");
        let late = request.timeout(std::time::Duration::from_secs(1));
        assert_eq!(sandbox.exec(&late).await?.outcome, Outcome::TimedOut);
        let left = output(&sandbox, "ps | grep 'sleep 100[12]' | grep -v grep || true").await?;
        assert_eq!(left, "");
        let written = shell(&sandbox, "echo x > /etc/x").await?;
        assert!(!written.success(), "{written:?}");
        sandbox.kill().await
    })
}
