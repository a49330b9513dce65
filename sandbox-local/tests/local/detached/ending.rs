//! The end of detached sandboxes, with or without their supervisor.

use super::*;
use crate::harness::{Test, test};

pub const TESTS: &[Test] = &[
    test!(async detached_sandbox_ends_after_its_lifetime),
    test!(async killed_supervisor_ends_the_sandbox_and_leftovers_are_removable),
    test!(async reused_process_id_is_not_killed),
    test!(async sandbox_of_another_pid_namespace_is_not_touched),
    test!(async folders_without_permissions_are_removed),
];

async fn detached_sandbox_ends_after_its_lifetime() {
    let state = state();
    let name = unique("timed");
    let creator = client(state.path(), policy());
    let spec = spec(&name).lifetime(Duration::from_secs(2));
    let sandbox = creator.create(&spec).await.expect("created");
    let parts = parts(state.path(), &name);
    assert!(!users_are_free(state.path()) || !is_root());
    lingering(&sandbox, &name).await;
    wait_until("nothing is left", Duration::from_secs(20), || {
        is_removed(state.path(), &name, &parts) && processes::containing(&name).is_empty()
    });
    let result = sandbox.exec(&sh("true")).await;
    assert!(result.is_err_and(|error| error.kind() == ErrorKind::SandboxEnded));
    sandbox.kill().await.expect("harmless");
}

async fn killed_supervisor_ends_the_sandbox_and_leftovers_are_removable() {
    let state = state();
    let client = client(state.path(), policy());
    for way in ["prune", "remove"] {
        let name = unique(way);
        let sandbox = client.create(&spec(&name)).await.expect("created");
        let parts = parts(state.path(), &name);
        let marker = format!("{name}-marker");
        tokio::join!(lingering(&sandbox, &marker), async {
            let runs = async || !processes::containing(&marker).is_empty();
            wait_until_async("the program runs", Duration::from_secs(10), runs).await;
            kill_process(parts.supervisor, Signal::KILL).expect("killed");
        });
        wait_until("no process is left", Duration::from_secs(20), || {
            !runs(parts.agent) && processes::containing(&marker).is_empty()
        });
        let list = client.list().await.expect("a list");
        let state_of = |name: &str| list.iter().find(|info| info.name == name).map(|i| i.state);
        assert_eq!(state_of(&name), Some(SandboxState::Ended));
        let error = client.get(&name).await.expect_err("ended");
        assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}");
        let error = client.create(&spec(&name)).await.expect_err("its folder");
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        assert!(
            error.fix().is_some_and(|fix| fix.contains("sandbox rm")),
            "{error}"
        );
        let living = unique("living");
        let alive = client.create(&spec(&living)).await.expect("created");
        match way {
            "prune" => assert_eq!(client.prune().await.expect("pruned"), [name.as_str()]),
            _ => client.remove(&name).await.expect("removed"),
        }
        assert!(!runs(parts.supervisor) && parts.groups.iter().all(|group| !group.exists()));
        assert_eq!(left(state.path()), [living]);
        assert!(alive.exec(&sh("true")).await.expect("it runs").success());
        alive.kill().await.expect("ended");
        client
            .create(&spec(&name))
            .await
            .expect("the name is free")
            .kill()
            .await
            .expect("ended");
    }
    assert!(left(state.path()).is_empty() && users_are_free(state.path()));
}

async fn reused_process_id_is_not_killed() {
    let state = state();
    let client = client(state.path(), policy());
    let name = unique("reused");
    let mut foreign = Command::new("sleep").arg("60").spawn().expect("started");
    for boot in [false, true] {
        drop(client.create(&spec(&name)).await.expect("created"));
        let parts = parts(state.path(), &name);
        kill_process(parts.supervisor, Signal::KILL).expect("killed");
        // This runtime drops the dropped handle's connection, for which an agent in the host's
        // namespaces waits.
        let has_ended = async || !runs(parts.agent);
        wait_until_async("the agent has ended", Duration::from_secs(20), has_ended).await;
        let text = std::fs::read(&parts.record).expect("a record");
        let mut json: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        for process in ["keeper", "agent"] {
            json["parts"][process]["pid"] = foreign.id().into();
            // It may have started in the same clock tick as the foreign process.
            json["parts"][process]["start"] = 1.into();
            if boot {
                // The record is from another boot of the machine.
                let stat = std::fs::read_to_string(format!("/proc/{}/stat", foreign.id()));
                let stat = stat.expect("it runs");
                let start = stat.rsplit_once(')').expect("a name").1;
                let start = start.split_whitespace().nth(19).expect("a start");
                json["parts"][process]["start"] = start.parse::<u64>().expect("a number").into();
            }
        }
        if boot {
            json["parts"]["era"]["boot"] = "another".into();
        }
        std::fs::write(&parts.record, json.to_string()).expect("written");
        assert_eq!(client.prune().await.expect("pruned"), [name.as_str()]);
        assert!(left(state.path()).is_empty());
        assert!(matches!(foreign.try_wait(), Ok(None)), "it was killed");
        for group in parts.groups {
            // After another boot, these do not exist.
            let removed = std::fs::remove_dir(group);
            assert_eq!(removed.is_ok(), boot);
        }
    }
    foreign.kill().expect("killed");
    foreign.wait().expect("ended");
}

async fn sandbox_of_another_pid_namespace_is_not_touched() {
    let state = state();
    let client = client(state.path(), policy());
    let name = unique("elsewhere");
    let sandbox = client.create(&spec(&name)).await.expect("created");
    let record = parts(state.path(), &name).record;
    let text = std::fs::read(&record).expect("a record");
    let mut json: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    json["parts"]["era"]["namespace"] = 1.into();
    std::fs::write(&record, json.to_string()).expect("written");
    for error in [
        client.get(&name).await.expect_err("not here"),
        client.remove(&name).await.expect_err("not here"),
    ] {
        assert!(
            error.context().contains("another process namespace"),
            "{error}"
        );
    }
    assert!(client.prune().await.expect("nothing").is_empty());
    std::fs::write(&record, "{").expect("written");
    let other = client.create(&spec(&unique("readable"))).await;
    let other = other.expect("created");
    let mut states = Vec::new();
    for listed in client.list().await.expect("a list") {
        states.push((listed.name == name, listed.state));
    }
    states.sort_by_key(|(is_unreadable, _)| *is_unreadable);
    assert_eq!(
        states,
        [
            (false, SandboxState::Running),
            (true, SandboxState::Unknown)
        ]
    );
    other.kill().await.expect("ended");
    let error = client.get(&name).await.expect_err("unreadable");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(client.remove(&name).await.is_err());
    assert!(sandbox.exec(&sh("true")).await.expect("it lives").success());
    sandbox.kill().await.expect("ended");
    assert!(left(state.path()).is_empty());
}

async fn folders_without_permissions_are_removed() {
    let state = state();
    let client = client(state.path(), policy());
    for way in ["closed-by-keeper", "closed-by-others"] {
        let name = unique(way);
        let sandbox = client.create(&spec(&name)).await.expect("created");
        let script = "cd \"${TMPDIR:-/tmp}\"; for mode in 0 500 300; do mkdir -p $mode/below; touch $mode/file; chmod $mode $mode; done";
        assert!(sandbox.exec(&sh(script)).await.expect("it runs").success());
        let parts = parts(state.path(), &name);
        if way == "closed-by-others" {
            kill_process(parts.supervisor, Signal::KILL).expect("killed");
            wait_until("the agent has ended", Duration::from_secs(20), || {
                !runs(parts.agent)
            });
            assert_eq!(client.prune().await.expect("pruned"), [name.as_str()]);
        } else {
            sandbox.kill().await.expect("ended");
        }
        assert!(left(state.path()).is_empty(), "{way}");
    }
}
