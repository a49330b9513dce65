//! The end of sandboxes, which leaves nothing.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sandbox_core::spi::{Backend, Instance};
use sandbox_core::{ErrorKind, ExecRequest, Outcome, SandboxClient, SandboxOwner};
use sandbox_local::UnsafeLocalBackend;
use sandbox_testing::processes;
use sandbox_testing::wait::{wait_until, wait_until_async};

use crate::harness::{Test, test};

use crate::support::{backend_in, client, create, namespaces, own_groups, policy, sh, spec};

pub const TESTS: &[Test] = &[
    test!(async killed_sandbox_leaves_nothing),
    test!(threads dropped_sandbox_leaves_nothing),
    test!(sync fifty_concurrent_sandboxes_work_and_leave_nothing),
    test!(threads cancelled_creation_leaves_nothing),
    test!(async sandbox_ends_after_its_lifetime),
    test!(sync killed_owner_leaves_no_process),
    test!(async attached_sandbox_is_found_by_its_creator_only),
    test!(async unsafe_tier_runs_and_ends_programs),
    test!(async report_covers_every_demand),
    test!(sync stopped_agent_ends_with_its_owner),
];

const OWNER: &str = "SANDBOX_TEST_OWNER";

fn marker(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

/// A script that keeps processes with `marker` in their command line, some of them detached.
fn lingering(marker: &str) -> ExecRequest {
    let sleep = format!("sh -c 'sleep 600; : {marker}'");
    sh(&format!("setsid {sleep} & ({sleep} &) & {sleep}"))
}

async fn killed_sandbox_leaves_nothing() {
    let marker = marker("killed");
    let sandbox = std::sync::Arc::new(create(policy()).await);
    let running = tokio::spawn({
        let (sandbox, request) = (sandbox.clone(), lingering(&marker));
        async move { sandbox.exec(&request).await }
    });
    wait_for_tree(&marker).await;
    let start = Instant::now();
    sandbox.kill().await.expect("it ends");
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
    assert!(processes::containing(&marker).is_empty());
    sandbox.kill().await.expect("harmless");
    let result = running.await.expect("joined");
    assert!(!matches!(
        result.map(|r| r.outcome),
        Ok(Outcome::Exited { .. })
    ));
}

async fn dropped_sandbox_leaves_nothing() {
    let marker = marker("dropped");
    let sandbox = create(policy()).await;
    {
        let request = lingering(&marker);
        let running = sandbox.exec(&request);
        tokio::select! {
            _ = running => panic!("it lingers"),
            () = wait_for_tree(&marker) => {}
        }
    }
    drop(sandbox);
    let marker = &marker;
    tokio::task::block_in_place(|| {
        wait_until("the tree has ended", Duration::from_secs(20), || {
            processes::containing(marker).is_empty()
        });
    });
}

async fn wait_for_tree(marker: &str) {
    let runs = async || processes::containing(marker).len() >= 3;
    wait_until_async("the processes run", Duration::from_secs(10), runs).await;
}

/// Runs in its own process, so that it counts only its own control groups.
fn fifty_concurrent_sandboxes_work_and_leave_nothing() {
    crate::users::alone(
        "lifetime::fifty_concurrent_sandboxes_work_and_leave_nothing",
        || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                let client = client(policy());
                let tasks = (0..50).map(|number| {
                    let client = client.clone();
                    tokio::spawn(async move {
                        let sandbox = client.create(&spec()).await.expect("a sandbox");
                        let result = sandbox
                            .exec(&sh(&format!("echo {number}")))
                            .await
                            .expect("it runs");
                        assert_eq!(result.stdout_text(), format!("{number}\n"));
                        if number % 2 == 0 {
                            sandbox.kill().await.expect("it ends");
                        }
                    })
                });
                for task in tasks.collect::<Vec<_>>() {
                    task.await.expect("no panic");
                }
            });
            wait_until("no child is left", Duration::from_secs(10), || {
                crate::residue::children().is_empty()
            });
            wait_until("no group is left", Duration::from_secs(10), || {
                own_groups().is_empty()
            });
        },
    );
}

async fn cancelled_creation_leaves_nothing() {
    let client = client(policy());
    let before = agents();
    for delay in [0, 200, 500, 1000, 2000, 4000, 8000] {
        let spec = spec();
        let creation = client.create(&spec);
        let _ = tokio::time::timeout(Duration::from_micros(delay), creation)
            .await
            .map(drop);
    }
    tokio::task::block_in_place(|| {
        // Other tests use sandboxes at the same time.
        wait_until("no agent is left", Duration::from_secs(20), || {
            agents() <= before.max(4)
        });
    });
}

fn agents() -> usize {
    processes::containing("sandbox-agent\0serve").len()
}

async fn sandbox_ends_after_its_lifetime() {
    let spec = spec().lifetime(Duration::from_millis(300));
    let sandbox = client(policy()).create(&spec).await.expect("a sandbox");
    let result = sandbox.exec(&sh("sleep 20")).await;
    let text = format!("{result:?}");
    assert!(text.contains("lifetime"), "{text}");
}

/// The owner is killed; the kernel and the agent end the sandbox.
fn killed_owner_leaves_no_process() {
    if std::env::var_os(OWNER).is_some() {
        return own();
    }
    let mut owner = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "lifetime::killed_owner_leaves_no_process",
            "--nocapture",
        ])
        .env(OWNER, marker("owned"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let output = BufReader::new(owner.stdout.take().expect("piped"));
    let ready = output
        .lines()
        .map_while(Result::ok)
        .any(|line| line.contains("owner is ready"));
    assert!(ready, "the owner did not get ready");
    let marker = marker("owned");
    wait_until("its code runs", Duration::from_secs(10), || {
        !processes::containing(&marker).is_empty()
    });
    owner.kill().expect("SIGKILL");
    owner.wait().expect("ended");
    wait_until("its tree has ended", Duration::from_secs(20), || {
        processes::containing(&marker).is_empty()
    });
}

fn own() {
    let marker = std::env::var(OWNER).expect("set");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let sandbox = create(policy()).await;
        println!("owner is ready");
        let result = sandbox.exec(&lingering(&marker)).await;
        panic!("the owner should have been killed: {result:?}");
    });
}

async fn attached_sandbox_is_found_by_its_creator_only() {
    let state = tempfile::tempdir().expect("a folder");
    let client = || SandboxClient::with_backend(backend_in(&state.path().join("state")), policy());
    let (creator, other) = (client().expect("a client"), client().expect("a client"));
    let sandbox = creator.create(&spec()).await.expect("a sandbox");
    let name = sandbox.name();
    let found = creator.get(name).await.expect("its own");
    assert!(found.exec(&sh("true")).await.expect("it runs").success());
    let owner = SandboxOwner::this_process();
    for client in [&creator, &other] {
        let list = client.list_all().await.expect("listed");
        let listed = list.iter().map(|info| (&*info.name, &info.owner));
        assert_eq!(listed.collect::<Vec<_>>(), [(name, &Some(owner.clone()))]);
    }
    for error in [
        other.get(name).await.expect_err("not its own"),
        other.remove(name).await.expect_err("not its own"),
    ] {
        assert_eq!(error.kind(), ErrorKind::SandboxAttached, "{error}");
        assert!(error.context().contains(&owner.to_string()), "{error}");
    }
    creator.remove(name).await.expect("removed");
    assert_eq!(other.list_all().await.expect("listed"), []);
    let error = found.exec(&sh("true")).await.expect_err("ended");
    assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}");
}

async fn unsafe_tier_runs_and_ends_programs() {
    let backend = UnsafeLocalBackend::default();
    assert_eq!(backend.name(), "local_unsafe");
    let client =
        SandboxClient::with_backend(std::sync::Arc::new(backend), policy()).expect("a client");
    let sandbox = client
        .create(&spec().env("GREETING", "hello"))
        .await
        .expect("a sandbox");
    let instance: Vec<_> = sandbox.enforcement().enforced_capabilities();
    assert_eq!(instance, []);
    let result = sandbox
        .exec(&sh("echo $GREETING; pwd; test -e /proc/1"))
        .await
        .expect("it runs");
    let here = std::env::current_dir().expect("a folder");
    assert_eq!(result.stdout_text(), format!("hello\n{}\n", here.display()));
    assert!(result.success());

    let marker = marker("unsafe");
    let request = lingering(&marker).timeout(Duration::from_millis(500));
    let result = sandbox.exec(&request).await.expect("it runs");
    assert_eq!(result.outcome, Outcome::TimedOut);
    assert!(processes::containing(&marker).is_empty());
    sandbox.kill().await.expect("it ends");
}

async fn report_covers_every_demand() {
    let backend = crate::support::backend();
    let plan = sandbox_core::Plan::resolve(&spec(), &policy()).expect("a plan");
    let report = backend.assess(&plan).await.expect("assessed");
    for demand in &plan.demands {
        assert!(
            report.get(demand.capability).is_some(),
            "{}",
            demand.capability
        );
    }
    let instance: Box<dyn Instance> = backend.create(&plan).await.expect("a sandbox");
    assert_eq!(instance.enforcement(), &report);
    let findings = backend.diagnose().await;
    assert!(
        findings
            .iter()
            .all(|finding| finding.present == finding.fix.is_empty()),
        "{findings:?}"
    );
    let key = backend.profile().await.expect("a key");
    let expected = if namespaces() { "yes" } else { "no" };
    assert!(
        key.contains(&("user_namespaces".into(), expected.into())),
        "{key:?}"
    );
}

const STOPPED: &str = "SANDBOX_TEST_OWNER_OF_STOPPED";

/// The owner is killed while it ends a sandbox without namespaces, whose agent it has stopped.
fn stopped_agent_ends_with_its_owner() {
    if std::env::var_os(STOPPED).is_some() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        return runtime.block_on(async {
            let backend = std::sync::Arc::new(UnsafeLocalBackend::default());
            let client = SandboxClient::with_backend(backend, policy()).expect("a client");
            let _sandbox = client.create(&spec()).await.expect("a sandbox");
            let agents = crate::residue::children();
            println!("the agent is {} ", agents[0]);
            tokio::time::sleep(Duration::from_secs(60)).await;
            panic!("the owner should have been killed");
        });
    }
    let mut owner = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "lifetime::stopped_agent_ends_with_its_owner",
            "--nocapture",
        ])
        .env(STOPPED, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let output = BufReader::new(owner.stdout.take().expect("piped"));
    let mut lines = output.lines().map_while(Result::ok);
    let agent = lines.find_map(|line| {
        let (_, rest) = line.split_once("the agent is ")?;
        rest.split(' ').next()?.parse::<i32>().ok()
    });
    let agent =
        rustix::process::Pid::from_raw(agent.expect("the agent's number")).expect("a number");
    let agent = rustix::process::pidfd_open(agent, rustix::process::PidfdFlags::empty());
    let agent = agent.expect("it runs");
    let send = |signal| rustix::process::pidfd_send_signal(&agent, signal);
    send(rustix::process::Signal::STOP).expect("stopped");
    owner.kill().expect("SIGKILL");
    owner.wait().expect("ended");
    wait_until("the agent has ended", Duration::from_secs(20), || {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        matches!(
            poll(&mut [PollFd::new(&agent, PollFlags::IN)], Some(&now)),
            Ok(1)
        )
    });
}
