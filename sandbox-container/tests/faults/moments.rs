//! Owners that are killed with SIGKILL at given moments.

use std::time::Duration;

use libtest_mimic::Failed;
use sandbox_core::{ExecRequest, unique_name};

use super::Test;
use super::engine::{Engine, run};
use super::owner;
use super::processes::Signal;
use super::proxy::{Moment, Proxy, When};

pub const TESTS: &[Test] = &[
    ("moments::an_owner_is_killed_at_any_moment", attached),
    ("moments::a_creator_is_killed_at_any_moment", detached),
];

/// How long anything of a killed owner may run.
const BOUND: Duration = Duration::from_secs(5);

/// The states of containers in which nothing of theirs runs, as one engine or the other calls them. One that is initialized has a process
/// that waits to become its first.
const NOT_RUNNING: &[&str] = &[
    "created",
    "configured",
    "initialized",
    "exited",
    "stopped",
    "dead",
];

/// The requests of a creation, in their order.
const CREATION: &[Moment] = &[
    ("POST", "/volumes/create", When::Asked),
    ("POST", "/volumes/create", When::Answered),
    // The container through which the volume is looked at.
    ("POST", "/containers/create?platform", When::Asked),
    ("POST", "/containers/create?platform", When::Answered),
    (
        "POST",
        "/containers/create?name=sandbox-fill",
        When::Answered,
    ),
    ("PUT", "/archive", When::Asked),
    (
        "POST",
        "/containers/create?name=sandbox-moment",
        When::Asked,
    ),
    (
        "POST",
        "/containers/create?name=sandbox-moment",
        When::Answered,
    ),
    ("POST", "/attach", When::Asked),
    ("POST", "/attach", When::Answered),
    ("POST", "/start", When::Asked),
    ("POST", "/start", When::Answered),
];

/// Those with which the agent's volume is made.
const VOLUME: usize = 6;

/// The requests of a creation for which the agent's volume is there.
pub fn of_containers() -> &'static [Moment] {
    &CREATION[VOLUME..]
}

/// What an owner does later.
const LIFE: &[(&str, u64)] = &[
    ("exec", 200),
    ("exec", 800),
    ("copy", 50),
    ("copy", 300),
    ("remove", 0),
    ("remove", 20),
];

fn attached() -> Result<(), Failed> {
    run(async {
        let engine = Engine::start().await;
        let end = [
            ("DELETE", "/containers/", When::Asked),
            ("DELETE", "/containers/", When::Answered),
        ];
        for moment in CREATION.iter().chain(&end) {
            // The removal of what the volume was looked at through is another one.
            let (method, ..) = moment;
            if *method != "DELETE" {
                forget_agents(&engine).await;
            }
            kill_at(&engine, *moment, false).await;
            clean(&engine, &format!("{moment:?}"), false).await?;
        }
        for (word, delay) in LIFE {
            let mut owner = owner::start(
                &engine.address(),
                &engine.state(),
                &unique_name("moment"),
                false,
            );
            owner.wait_until(word);
            tokio::time::sleep(Duration::from_millis(*delay)).await;
            owner.kill();
            clean(&engine, &format!("{word} + {delay} ms"), false).await?;
        }
        Ok(())
    })
}

fn detached() -> Result<(), Failed> {
    run(async {
        let engine = Engine::start().await;
        let reconnection = [
            ("POST", "/exec", When::Asked),
            ("POST", "/exec", When::Answered),
            ("POST", "/exec/", When::Asked),
            ("POST", "/exec/", When::Answered),
        ];
        for moment in of_containers().iter().chain(&reconnection) {
            let name = kill_at(&engine, *moment, true).await;
            clean(&engine, &format!("{moment:?}"), true).await?;
            // Whether it was handed over by then: it is a whole one or none.
            let client = engine.client();
            match client.get(&name).await {
                Ok(sandbox) => {
                    eprintln!("{moment:?}: it had been handed over");
                    assert!(sandbox.exec(&ExecRequest::new("true")).await?.ok());
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
        // One that was created outlives its creator.
        let name = unique_name("moment");
        let mut owner = owner::start(&engine.address(), &engine.state(), &name, true);
        owner.wait_until("exec");
        tokio::time::sleep(Duration::from_millis(200)).await;
        owner.kill();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let sandbox = engine.client().get(&name).await?;
        let left = sandbox
            .exec(&ExecRequest::shell("pidof sleep | wc -w"))
            .await?;
        assert_eq!(left.stdout_text(), "0\n", "its execution went with it");
        sandbox.kill().await
    })
}

/// So that the next owner has to make it.
async fn forget_agents(engine: &Engine) {
    for volume in engine.volumes() {
        let options = None::<bollard::query_parameters::RemoveVolumeOptions>;
        engine
            .api()
            .remove_volume(&volume, options)
            .await
            .expect("unused");
    }
}

async fn kill_at(engine: &Engine, moment: Moment, detached: bool) -> String {
    let name = unique_name("moment");
    let socket = engine.state().with_file_name(format!("{name}.sock"));
    let proxy = Proxy::start(&engine.socket(), &socket, moment);
    let mut owner = owner::start(&proxy.address(), &engine.state(), &name, detached);
    proxy.aim(vec![owner.pid()], Signal::Kill);
    tokio::task::block_in_place(|| proxy.wait_answered());
    owner.kill();
    name
}

/// Nothing that runs is left soon, nothing at all once the next client has pruned.
async fn clean(engine: &Engine, moment: &str, detached: bool) -> sandbox_core::Result<()> {
    let networks = engine.networks();
    if !detached {
        let not_running = |state: &str| NOT_RUNNING.contains(&state);
        engine.wait_for(moment, BOUND, not_running).await;
    }
    let before = engine.containers();
    let client = engine.client();
    client.prune().await?;
    // What the engine was asked for may only be made now.
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.prune().await?;
    eprintln!("{moment}: {before:?} was left to the next client");
    if !detached {
        assert_eq!(engine.containers(), [], "{moment}");
    }
    assert_eq!(engine.networks(), networks);
    assert!(engine.volumes().len() <= 1, "{:?}", engine.volumes());
    Ok(())
}
