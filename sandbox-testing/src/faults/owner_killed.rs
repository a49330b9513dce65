//! Owners that are killed with SIGKILL at chosen requests, and while they use a sandbox.

use std::time::Duration;

use sandbox_core::ExecRequest;
use sandbox_core::spi::unique_name;

use super::owner;
use super::private_engine::{PrivateEngine, run};
use super::{EngineLauncher, FaultTest};
use crate::contract::TestResult;
use crate::fault_proxy::{Breakpoint, FaultProxy, after, before};
use crate::processes::Signal;

pub const TESTS: &[FaultTest] = &[
    ("owner_killed::at_any_request_leaves_nothing", attached),
    (
        "owner_killed::at_any_request_of_a_detached_creation_leaves_all_or_nothing",
        detached,
    ),
];

/// The longest that anything of a killed owner may run.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(20);

/// The states of containers in which no code runs, in the words of Docker and Podman. An
/// initialized container has a process that waits to execute its first program.
const NOT_RUNNING: &[&str] = &[
    "created",
    "configured",
    "initialized",
    "exited",
    "stopped",
    "dead",
];

/// The requests of a creation, in order.
const CREATION: &[Breakpoint] = &[
    before("POST", "/volumes/create"),
    after("POST", "/volumes/create"),
    // The container through which the backend reads the volume.
    before("POST", "/containers/create?platform"),
    after("POST", "/containers/create?platform"),
    after("POST", "/containers/create?name=sandbox-fill"),
    before("PUT", "/archive"),
    before("POST", "/containers/create?name=sandbox-moment"),
    after("POST", "/containers/create?name=sandbox-moment"),
    before("POST", "/attach"),
    after("POST", "/attach"),
    before("POST", "/start"),
    after("POST", "/start"),
];

/// How many of them make the agent's volume.
const VOLUME_REQUESTS: usize = 6;

/// The requests of a creation where the agent's volume exists.
pub fn container_requests() -> &'static [Breakpoint] {
    &CREATION[VOLUME_REQUESTS..]
}

/// The owner's phases after the creation, with the milliseconds until it is killed.
const PHASES: &[(&str, u64)] = &[
    ("exec", 200),
    ("exec", 800),
    ("copy", 50),
    ("copy", 300),
    ("remove", 0),
    ("remove", 20),
];

fn attached(launcher: &'static dyn EngineLauncher) -> TestResult {
    run(async {
        let engine = PrivateEngine::start(launcher).await;
        let end = [
            before("DELETE", "/containers/"),
            after("DELETE", "/containers/"),
        ];
        for breakpoint in CREATION.iter().chain(&end) {
            // Otherwise the first removal is that of the container that reads the volume.
            if breakpoint.method != "DELETE" {
                forget_agents(&engine).await;
            }
            kill_at(&engine, *breakpoint, false).await;
            assert_clean(&engine, &format!("{breakpoint:?}"), false).await?;
        }
        for (phase, delay) in PHASES {
            let mut owner = owner::start(
                &engine.address(),
                &engine.state(),
                &unique_name("moment"),
                false,
            );
            owner.wait_until(phase);
            tokio::time::sleep(Duration::from_millis(*delay)).await;
            owner.kill();
            assert_clean(&engine, &format!("{phase} + {delay} ms"), false).await?;
        }
        Ok(())
    })
}

fn detached(launcher: &'static dyn EngineLauncher) -> TestResult {
    run(async {
        let engine = PrivateEngine::start(launcher).await;
        let reconnection = [
            before("POST", "/exec"),
            after("POST", "/exec"),
            before("POST", "/exec/"),
            after("POST", "/exec/"),
        ];
        for breakpoint in container_requests().iter().chain(&reconnection) {
            let name = kill_at(&engine, *breakpoint, true).await;
            assert_clean(&engine, &format!("{breakpoint:?}"), true).await?;
            // The sandbox works if it was handed over before, and does not exist otherwise.
            let client = engine.client();
            match client.get(&name).await {
                Ok(sandbox) => {
                    eprintln!("{breakpoint:?}: it was handed over before");
                    assert!(sandbox.exec(&ExecRequest::new("true")).await?.success());
                    sandbox.kill().await?;
                }
                Err(error) => assert_eq!(
                    error.kind(),
                    sandbox_core::ErrorKind::SandboxNotFound,
                    "{error}"
                ),
            }
            assert_eq!(engine.containers(), []);
            assert!(client.list().await?.is_empty());
        }
        // A created sandbox outlives its creator.
        let name = unique_name("moment");
        let mut owner = owner::start(&engine.address(), &engine.state(), &name, true);
        owner.wait_until("exec");
        tokio::time::sleep(Duration::from_millis(200)).await;
        owner.kill();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let sandbox = engine.client().get(&name).await?;
        let running = sandbox
            .exec(&ExecRequest::shell("pidof sleep | wc -w"))
            .await?;
        assert_eq!(
            running.stdout_text(),
            "0\n",
            "the execution outlives its owner"
        );
        sandbox.kill().await
    })
}

/// Removes the agents' volumes, so that the next owner makes one.
async fn forget_agents(engine: &PrivateEngine) {
    for volume in engine.volumes() {
        let options = None::<bollard::query_parameters::RemoveVolumeOptions>;
        engine
            .api()
            .remove_volume(&volume, options)
            .await
            .expect("unused");
    }
}

async fn kill_at(engine: &PrivateEngine, breakpoint: Breakpoint, detached: bool) -> String {
    let name = unique_name("moment");
    let socket = engine.state().with_file_name(format!("{name}.sock"));
    let proxy = FaultProxy::unix(&engine.socket(), &socket, breakpoint);
    let mut owner = owner::start(proxy.address(), &engine.state(), &name, detached);
    proxy.aim(vec![owner.pid()], Signal::Kill);
    tokio::task::block_in_place(|| proxy.wait_answered());
    owner.kill();
    name
}

/// Asserts that nothing runs soon, and that nothing is left after the next client has pruned.
async fn assert_clean(
    engine: &PrivateEngine,
    what: &str,
    detached: bool,
) -> sandbox_core::Result<()> {
    let networks = engine.networks();
    if !detached {
        let not_running = |state: &str| NOT_RUNNING.contains(&state);
        engine.wait_for(what, CLEANUP_TIMEOUT, not_running).await;
    }
    let before = engine.containers();
    let client = engine.client();
    client.prune().await?;
    // The engine may only now complete a request.
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.prune().await?;
    eprintln!("{what}: {before:?} was left for the next client");
    if !detached {
        assert_eq!(engine.containers(), [], "{what}");
    }
    assert_eq!(engine.networks(), networks);
    assert!(engine.volumes().len() <= 1, "{:?}", engine.volumes());
    Ok(())
}
