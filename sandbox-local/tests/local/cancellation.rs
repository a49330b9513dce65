//! A canceled operation leaves no process, control group, mount, folder, lock or descriptor. Each
//! test runs in its own process, so that it counts only its own leftovers.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use sandbox_core::{Error, ExecEvent, Execution, Result, SandboxClient, SandboxHandle, Stdin};
use sandbox_testing::processes;
use sandbox_testing::users::is_root;
use sandbox_testing::wait::{wait_until, wait_until_async};

use crate::harness::{Need, Test, block_on, test};
use crate::residue::{Ground, children};

use crate::support::{create, namespaces, policy, sh, spec};
use crate::users::alone;

pub const TESTS: &[Test] = &[
    test!(sync creation_cancelled_after_any_poll_leaves_nothing),
    test!(sync creation_cancelled_at_any_time_leaves_nothing),
    test!(sync agent_killed_during_creation_is_an_error_and_leaves_nothing),
    test!(sync creation_without_descriptors_fails_and_leaves_nothing),
    test!(sync creation_in_a_broken_state_folder_fails_and_leaves_nothing),
    test!(sync leftovers_are_detected),
    test!(sync execution_cancelled_after_any_poll_leaves_nothing),
    test!(async cancelled_export_leaves_no_partial_file, Need::Namespaces),
    test!(sync runtime_shutdown_leaves_nothing),
];

/// Polls a future this number of times, then drops it.
struct Polled<F> {
    future: Pin<Box<F>>,
    left: usize,
}

impl<F: Future> Polled<F> {
    fn new(future: F, polls: usize) -> Self {
        Self {
            future: Box::pin(future),
            left: polls,
        }
    }
}

impl<F: Future> Future for Polled<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.left -= 1;
        match self.future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// A canceled writer to a full pipe gets no error, so its program is found by the command line.
fn lingering(marker: &str) -> String {
    let sleep = format!("sh -c 'sleep 600; : {marker}'");
    format!("setsid {sleep} & ({sleep} &) & echo ready; {sleep}")
}

fn creation_cancelled_after_any_poll_leaves_nothing() {
    alone(
        "cancellation::creation_cancelled_after_any_poll_leaves_nothing",
        || {
            block_on(async {
                let ground = Ground::prepare().await;
                for round in 0..4 {
                    let mut polls = 1;
                    loop {
                        let client = ground.client();
                        let spec = spec();
                        let created = Polled::new(client.create(&spec), polls).await;
                        let done = created.is_some();
                        if let Some(sandbox) = created {
                            sandbox.expect("nothing fails here");
                        }
                        if round > 0 || done {
                            ground
                                .nothing_is_left(&format!("{polls} polls of create"))
                                .await;
                        }
                        if done {
                            break;
                        }
                        polls += 1;
                        assert!(polls < 1000, "it is never done");
                    }
                    println!("create is done after {polls} polls");
                    assert!(polls > 2, "it was not given up in the middle");
                }
            });
        },
    );
}

fn creation_cancelled_at_any_time_leaves_nothing() {
    alone(
        "cancellation::creation_cancelled_at_any_time_leaves_nothing",
        || {
            block_on(async {
                let ground = Ground::prepare().await;
                let mut created = 0;
                for step in 0..200 {
                    let delay = Duration::from_micros(40 * step);
                    let (client, spec) = (ground.client(), spec());
                    if tokio::time::timeout(delay, client.create(&spec))
                        .await
                        .is_ok()
                    {
                        created += 1;
                    }
                    if step % 10 == 9 {
                        ground
                            .nothing_is_left(&format!("{delay:?} of create"))
                            .await;
                    }
                }
                println!("{created} of 200 were created");
            });
        },
    );
}

/// Another process kills the future agent at increasing delays.
fn agent_killed_during_creation_is_an_error_and_leaves_nothing() {
    alone(
        "cancellation::agent_killed_during_creation_is_an_error_and_leaves_nothing",
        || {
            block_on(async {
                let ground = Ground::prepare().await;
                let (mut failed, mut created) = (0, 0);
                for step in 0..150 {
                    let killer = std::thread::spawn(move || {
                        let deadline = Instant::now() + Duration::from_secs(20);
                        let child = loop {
                            if let Some(child) = children().first() {
                                break *child;
                            }
                            assert!(Instant::now() < deadline, "no agent was started");
                        };
                        std::thread::sleep(Duration::from_micros(40 * step));
                        let pid = rustix::process::Pid::from_raw(child).expect("a number");
                        // It may have ended itself, because a created sandbox is dropped at once.
                        let _ = rustix::process::kill_process(pid, Signal::KILL);
                    });
                    let started = Instant::now();
                    let made = ground.client().create(&spec()).await;
                    let took = started.elapsed();
                    // The sandbox lives until the other process has found its agent.
                    tokio::task::spawn_blocking(|| killer.join())
                        .await
                        .expect("joined")
                        .expect("no panic");
                    match made {
                        Ok(sandbox) => {
                            drop(sandbox);
                            created += 1;
                        }
                        Err(error) => {
                            failed += 1;
                            let has_reason = !error.context().is_empty();
                            assert!(has_reason && error.backend() == Some("local"), "{error}");
                        }
                    }
                    assert!(took < Duration::from_secs(20), "{took:?}");
                    ground
                        .nothing_is_left(&format!(
                            "an agent that was killed after {} µs",
                            40 * step
                        ))
                        .await;
                }
                println!("{failed} failed, {created} were made before");
                assert!(failed > 10, "the agent was hardly ever hit");
            });
        },
    );
}

/// Raises the descriptor limit one by one: the first step without a descriptor fails.
fn creation_without_descriptors_fails_and_leaves_nothing() {
    alone(
        "cancellation::creation_without_descriptors_fails_and_leaves_nothing",
        || {
            block_on(async {
                // The first sandbox of a process opens more descriptors than later ones.
                for prepared in [false, true] {
                    let ground = Ground::prepare().await;
                    let normal = getrlimit(Resource::Nofile);
                    let free = lowest_free_descriptor();
                    let mut failures = std::collections::BTreeMap::new();
                    let mut room = 0;
                    loop {
                        if !prepared {
                            let _ = std::fs::remove_dir_all(ground.state_folder());
                        }
                        let few = Rlimit {
                            current: Some(free + room),
                            ..normal
                        };
                        setrlimit(Resource::Nofile, few).expect("lowered");
                        let created = ground.client().create(&spec()).await;
                        let created = match created {
                            Ok(sandbox) => {
                                // A sandbox that was created works, or returns an error.
                                let result = sandbox.shell("exit 3").await;
                                assert!(
                                    result.is_err()
                                        || result.is_ok_and(|r| r.exit_code() == Some(3))
                                );
                                true
                            }
                            Err(error) => {
                                assert!(
                                    !error.context().is_empty() && error.backend() == Some("local"),
                                    "{error}"
                                );
                                *failures.entry(error.to_string()).or_insert(0) += 1;
                                false
                            }
                        };
                        setrlimit(Resource::Nofile, normal).expect("raised");
                        ground
                            .nothing_is_left(&format!(
                                "a creation with room for {room} descriptors"
                            ))
                            .await;
                        if created || room > 100 {
                            break;
                        }
                        room += 1;
                    }
                    assert!(room <= 100, "it is never created");
                    for (failure, times) in &failures {
                        println!("{times} times: {failure}");
                    }
                    assert!(
                        room > 3 && failures.len() > 1,
                        "{room} descriptors are enough"
                    );
                }
            });
        },
    );
}

/// The limit applies to descriptor numbers, not to their count.
fn lowest_free_descriptor() -> u64 {
    use std::os::fd::AsRawFd;
    let file = std::fs::File::open("/dev/null").expect("there");
    file.as_raw_fd().unsigned_abs().into()
}

/// Replaces entries of the state folder.
fn creation_in_a_broken_state_folder_fails_and_leaves_nothing() {
    alone(
        "cancellation::creation_in_a_broken_state_folder_fails_and_leaves_nothing",
        || {
            block_on(async {
                let ground = Ground::prepare().await;
                let state = ground.state_folder();
                let mut spoiled = 0;
                for part in [".", "scratch", "etc", "etc/*"] {
                    let path = match part.strip_suffix("/*") {
                        Some(folder) => match std::fs::read_dir(state.join(folder)) {
                            Ok(mut entries) => {
                                entries.next().expect("one").expect("readable").path()
                            }
                            Err(_) => continue,
                        },
                        None if part == "." => state.clone(),
                        None => state.join(part),
                    };
                    // Without namespaces, only these are used.
                    if !path.exists() || !(namespaces() || part == ".") {
                        continue;
                    }
                    let aside = state.with_extension("aside");
                    std::fs::rename(&path, &aside).expect("moved");
                    std::fs::write(&path, "spoiled").expect("written");
                    let error = ground
                        .client()
                        .create(&spec())
                        .await
                        .map(drop)
                        .expect_err(part);
                    println!("{part}: {error}");
                    assert_eq!(error.backend(), Some("local"));
                    let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path));
                    std::fs::rename(&aside, &path).expect("moved back");
                    ground.nothing_is_left(&format!("a spoiled {part:?}")).await;
                    spoiled += 1;
                }
                assert!(spoiled > 0);
                ground
                    .client()
                    .create(&spec())
                    .await
                    .expect("it works again");
                ground
                    .nothing_is_left("a state folder that is well again")
                    .await;
            });
        },
    );
}

/// A control: leftovers are detected.
fn leftovers_are_detected() {
    alone("cancellation::leftovers_are_detected", || {
        block_on(async {
            let ground = Ground::prepare().await;
            let sandbox = ground.client().create(&spec()).await.expect("a sandbox");
            let left = ground.left().join("\n");
            assert!(
                left.contains("process ") && left.contains("descriptor socket:"),
                "{left}"
            );
            if is_root() && namespaces() {
                assert!(left.contains("group ") && left.contains("/uids/"), "{left}");
            }
            if !namespaces() {
                assert!(left.contains("file "), "{left}");
            }
            drop(sandbox);
            ground.nothing_is_left("a sandbox that was dropped").await;
        });
    });
}

fn execution_cancelled_after_any_poll_leaves_nothing() {
    alone(
        "cancellation::execution_cancelled_after_any_poll_leaves_nothing",
        || {
            block_on(async {
                let ground = Ground::prepare().await;
                let sandbox = ground.client().create(&spec()).await.expect("a sandbox");
                let marker = format!("polled-{}-", std::process::id());
                let script = lingering(&marker);
                let short = sh("sleep 0.2");
                // At the end of a stream, and in the middle of an endless one.
                let mut polls = 1;
                while Polled::new(sandbox.exec(&short), polls).await.is_none() {
                    polls += 1;
                }
                for polls in 1..polls {
                    let given_up = Polled::new(sandbox.exec(&sh(&script)), polls).await;
                    assert!(given_up.is_none(), "it lingers");
                }
                for polls in 1..4 {
                    let request = sh(&script);
                    if let Some(execution) =
                        Polled::new(sandbox.start(&request, Stdin::Piped), polls).await
                    {
                        let mut execution = execution.expect("it starts");
                        assert!(Polled::new(execution.next_event(), 1).await.is_some());
                    }
                }
                wait_until_ended(&marker).await;
                assert!(sandbox.shell("true").await.expect("it lives").success());
                drop(sandbox);
                ground
                    .nothing_is_left("executions that were given up")
                    .await;
            });
        },
    );
}

/// An exported file is complete or absent.
async fn cancelled_export_leaves_no_partial_file() {
    const SIZE: u64 = 20_000_000;
    let mut policy = policy();
    policy.artifact_export_paths = vec!["/output/*".into()];
    let sandbox = create(policy).await;
    let result = sandbox
        .shell(format!("head -c {SIZE} /dev/zero > /output/x"))
        .await;
    assert!(result.expect("it runs").success());
    let mut given_up = 0;
    for polls in [1, 2, 3, 5, 10, 20, 50, 100, 1_000_000] {
        let folder = tempfile::tempdir().expect("a folder");
        let export = sandbox.export(folder.path());
        let exported = Polled::new(export, polls).await;
        let sizes = std::fs::read_dir(folder.path())
            .expect("a folder")
            .flatten();
        let sizes = sizes
            .map(|entry| entry.metadata().expect("there").len())
            .collect::<Vec<_>>();
        match exported {
            Some(export) => {
                assert_eq!(export.expect("exported").artifacts.len(), 1);
                assert_eq!(sizes, [SIZE]);
            }
            None => {
                given_up += 1;
                assert_eq!(sizes, [0; 0], "after {polls} polls");
            }
        }
    }
    assert!(given_up > 3, "{given_up} were given up in the middle");
}

async fn wait_until_ended(marker: &str) {
    let ended = async || processes::containing(marker).is_empty();
    wait_until_async("the tree has ended", Duration::from_secs(10), ended).await;
}

async fn started(sandbox: &SandboxHandle, script: &str) -> Result<Execution> {
    let mut execution = sandbox.start(&sh(script), Stdin::Piped).await?;
    while execution.next_event().await? != Some(ExecEvent::Stdout("ready\n".into())) {}
    Ok(execution)
}

/// Creates sandboxes and runs programs in them until something fails.
async fn cycle(client: &SandboxClient, script: &str) -> Error {
    let once = async || {
        let sandbox = client.create(&spec()).await?;
        let mut execution = started(&sandbox, script).await?;
        execution.kill().await;
        execution.wait().await
    };
    loop {
        if let Err(error) = once().await {
            return error;
        }
    }
}

/// The runtime shuts down while sandboxes are being created, used and ended.
fn runtime_shutdown_leaves_nothing() {
    alone("cancellation::runtime_shutdown_leaves_nothing", || {
        let ground = block_on(Ground::prepare());
        let marker = format!("runtime-{}-", std::process::id());
        for step in 0..30 {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build();
            let runtime = runtime.expect("a runtime");
            let client = ground.client();
            let script = lingering(&marker);
            let errors = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
            for _ in 0..2 {
                let (client, script) = (client.clone(), script.clone());
                let errors = errors.clone();
                runtime.spawn(async move {
                    let error = cycle(&client, &script).await;
                    errors.lock().expect("no panic").push(error.to_string());
                });
            }
            std::thread::sleep(Duration::from_micros(700 * step));
            if step % 2 == 0 {
                runtime.shutdown_background();
            } else {
                drop(runtime);
            }
            for error in errors.lock().expect("no panic").iter() {
                assert!(error.contains("the runtime was shut down"), "{error}");
            }
            block_on(ground.nothing_is_left(&format!("a runtime of {} µs", 700 * step)));
            assert!(processes::containing(&marker).is_empty());
        }
        // The handle and the execution are dropped after the runtime.
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let (sandbox, execution) = runtime.block_on(async {
            let sandbox = ground.client().create(&spec()).await.expect("a sandbox");
            let execution = started(&sandbox, &lingering(&marker)).await;
            let execution = execution.expect("it starts");
            (sandbox, execution)
        });
        assert!(!processes::containing(&marker).is_empty());
        runtime.shutdown_background();
        wait_until("the tree has ended", Duration::from_secs(10), || {
            processes::containing(&marker).is_empty()
        });
        let error = block_on(async {
            let mut execution = execution;
            execution.wait().await.expect_err("its runtime has ended")
        });
        assert!(error.to_string().contains("runtime"), "{error}");
        drop(sandbox);
        block_on(ground.nothing_is_left("a handle without a runtime"));
    });
}
