//! Sandboxes that outlive their creator.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use sandbox_core::{
    ByteSize, CapabilityPolicy, ErrorKind, Outcome, SandboxClient, SandboxHandle, SandboxSpec,
    SandboxState,
};
use sandbox_local::{LocalBackend, LocalConfig, UnsafeLocalBackend};

use crate::support::{eventually, is_root, namespaces, policy, processes_with, sh};

/// A client of its own backend, as another process would have it.
fn client(state: &Path, policy: CapabilityPolicy) -> SandboxClient {
    client_of(LocalConfig::new().state_folder(state), policy)
}

fn client_of(config: LocalConfig, policy: CapabilityPolicy) -> SandboxClient {
    let config = if namespaces() {
        config
    } else {
        config.without_user_namespaces()
    };
    let backend = Arc::new(LocalBackend::new(config));
    SandboxClient::with_backend(backend, policy).expect("a valid policy")
}

fn unique(what: &str) -> String {
    format!("{what}-{}", std::process::id())
}

fn state() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    tempfile::Builder::new()
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir()
        .expect("a folder")
}

fn spec(name: &str) -> SandboxSpec {
    SandboxSpec::new(name)
        .detached(true)
        .lifetime(Duration::from_secs(60))
}

fn left(state: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(state.join("sandboxes")) else {
        return Vec::new();
    };
    entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

#[tokio::test]
async fn a_detached_sandbox_is_used_by_others_and_ends_wholly() {
    let state = state();
    let name = unique("used");
    let creator = client(state.path(), policy());
    let created = creator.create(&spec(&name)).await.expect("created");
    let folder = created.temporary_folder().to_owned();
    let result = created
        .exec(&sh(&format!("echo kept > {folder}/file; echo out")))
        .await;
    assert_eq!(result.expect("it runs").stdout_text(), "out\n");
    drop(created);
    drop(creator);

    let other = client(state.path(), CapabilityPolicy::new());
    let list = other.list().await.expect("a list");
    assert_eq!(list.len(), 1);
    assert_eq!(
        (list[0].name.as_str(), list[0].state),
        (name.as_str(), SandboxState::Running)
    );
    let one = other.get(&name).await.expect("found");
    let two = other.get(&name).await.expect("found");
    let script = format!("cat {folder}/file; sleep 0.2; echo");
    let (a, b) = (sh(&format!("{script} a")), sh(&format!("{script} b")));
    let (a, b) = tokio::join!(one.exec(&a), two.exec(&b));
    assert_eq!(a.expect("it runs").stdout_text(), "kept\na\n");
    assert_eq!(b.expect("it runs").stdout_text(), "kept\nb\n");
    let logs = String::from_utf8(one.logs(None).await.expect("a log")).expect("UTF-8");
    assert!(logs.starts_with("out\n"), "{logs}");
    assert_eq!(processes_with(&format!("keep\0{name}")).len(), 1);
    let again = client(state.path(), policy())
        .create(&spec(&name))
        .await
        .expect_err("the name is taken");
    assert_eq!(again.kind(), ErrorKind::AlreadyExists, "{again}");
    assert_eq!(
        other.prune().await.expect("nothing to do"),
        Vec::<String>::new()
    );

    one.kill().await.expect("ended");
    one.kill().await.expect("harmless");
    two.stop().await.expect("harmless");
    assert!(left(state.path()).is_empty(), "{:?}", left(state.path()));
    eventually(Duration::from_secs(5), "the keeper is gone", || {
        processes_with(&format!("keep\0{name}")).is_empty()
    });
    for error in [
        other.get(&name).await.expect_err("ended"),
        other.remove(&name).await.expect_err("ended"),
    ] {
        assert_eq!(error.kind(), ErrorKind::SandboxNotFound, "{error}");
    }
}

/// What a sandbox has, out of its record.
struct Parts {
    keeper: Pid,
    agent: Pid,
    groups: Vec<PathBuf>,
    record: PathBuf,
}

fn parts(state: &Path, name: &str) -> Parts {
    let record = state.join("sandboxes").join(name).join("sandbox.json");
    let text = std::fs::read(&record).expect("a record");
    let json: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let pid = |key: &str| {
        let pid = json[key]["pid"].as_i64().expect("a number");
        Pid::from_raw(i32::try_from(pid).expect("small")).expect("not 0")
    };
    let groups = json["groups"].as_array().expect("a list").iter();
    Parts {
        keeper: pid("keeper"),
        agent: pid("agent"),
        groups: groups
            .map(|group| group.as_str().expect("text").into())
            .collect(),
        record,
    }
}

fn runs(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// Nothing of a sandbox is there any more.
fn is_gone(state: &Path, name: &str, parts: &Parts) -> bool {
    !runs(parts.keeper)
        && !runs(parts.agent)
        && parts.groups.iter().all(|group| !group.exists())
        && !left(state).contains(&name.to_owned())
        && users_are_free(state)
}

/// Nobody holds a range of users of this state folder.
fn users_are_free(state: &Path) -> bool {
    let files = std::fs::read_dir(state.join("uids")).into_iter().flatten();
    files.flatten().all(|file| {
        let file = File::open(file.path()).expect("readable");
        flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
    })
}

async fn lingering(sandbox: &SandboxHandle, marker: &str) {
    // The first survives its execution's end nowhere: it is there only as long as the exec is.
    let script = format!("sleep 60 & echo ready; exec sh -c 'sleep 60; : {marker}'");
    let result = sandbox.exec(&sh(&script)).await;
    assert!(!result.is_ok_and(|result| result.ok()), "it was ended");
}

#[tokio::test]
async fn its_time_ends_it_wholly() {
    let state = state();
    let name = unique("timed");
    let creator = client(state.path(), policy());
    let spec = spec(&name).lifetime(Duration::from_secs(2));
    let sandbox = creator.create(&spec).await.expect("created");
    let parts = parts(state.path(), &name);
    assert!(!users_are_free(state.path()) || !is_root());
    lingering(&sandbox, &name).await;
    eventually(Duration::from_secs(5), "nothing is left", || {
        is_gone(state.path(), &name, &parts) && processes_with(&name).is_empty()
    });
    let result = sandbox.exec(&sh("true")).await;
    assert!(result.is_err_and(|error| error.kind() == ErrorKind::SandboxEnded));
    sandbox.kill().await.expect("harmless");
}

#[tokio::test]
async fn a_killed_keeper_takes_the_sandbox_along_and_what_is_left_can_be_removed() {
    let state = state();
    let client = client(state.path(), policy());
    for way in ["prune", "remove"] {
        let name = unique(way);
        let sandbox = client.create(&spec(&name)).await.expect("created");
        let parts = parts(state.path(), &name);
        let marker = format!("{name}-marker");
        tokio::join!(lingering(&sandbox, &marker), async {
            while processes_with(&marker).is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            kill_process(parts.keeper, Signal::KILL).expect("killed");
        });
        eventually(Duration::from_secs(5), "no process is left", || {
            !runs(parts.agent) && processes_with(&marker).is_empty()
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
        assert!(!runs(parts.keeper) && parts.groups.iter().all(|group| !group.exists()));
        assert_eq!(left(state.path()), [living]);
        assert!(alive.exec(&sh("true")).await.expect("it runs").ok());
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

#[tokio::test]
async fn a_foreign_process_with_a_noted_number_is_left_alone() {
    let state = state();
    let client = client(state.path(), policy());
    let name = unique("reused");
    let mut foreign = Command::new("sleep").arg("60").spawn().expect("started");
    for boot in [false, true] {
        drop(client.create(&spec(&name)).await.expect("created"));
        let parts = parts(state.path(), &name);
        kill_process(parts.keeper, Signal::KILL).expect("killed");
        eventually(Duration::from_secs(5), "the agent is gone", || {
            !runs(parts.agent)
        });
        let text = std::fs::read(&parts.record).expect("a record");
        let mut json: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        for process in ["keeper", "agent"] {
            json[process]["pid"] = foreign.id().into();
            // It may have started in the same tick as the foreign one.
            json[process]["start"] = 1.into();
            if boot {
                // Everything is right, but of another start of the machine.
                let stat = std::fs::read_to_string(format!("/proc/{}/stat", foreign.id()));
                let stat = stat.expect("it runs");
                let start = stat.rsplit_once(')').expect("a name").1;
                let start = start.split_whitespace().nth(19).expect("a start");
                json[process]["start"] = start.parse::<u64>().expect("a number").into();
            }
        }
        if boot {
            json["era"]["boot"] = "another".into();
        }
        std::fs::write(&parts.record, json.to_string()).expect("written");
        assert_eq!(client.prune().await.expect("pruned"), [name.as_str()]);
        assert!(left(state.path()).is_empty());
        assert!(matches!(foreign.try_wait(), Ok(None)), "it was killed");
        for group in parts.groups {
            // After another start nobody would have made them.
            let removed = std::fs::remove_dir(group);
            assert_eq!(removed.is_ok(), boot);
        }
    }
    foreign.kill().expect("killed");
    foreign.wait().expect("ended");
}

#[tokio::test]
async fn twenty_at_once_want_one_name_and_one_gets_it() {
    let state = state();
    let name = unique("wanted");
    let creations = (0..20).map(|_| {
        let (client, spec) = (client(state.path(), policy()), spec(&name));
        tokio::spawn(async move { client.create(&spec).await })
    });
    let mut won = Vec::new();
    for creation in creations.collect::<Vec<_>>() {
        match creation.await.expect("no panic") {
            Ok(sandbox) => won.push(sandbox),
            Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
        }
    }
    assert_eq!(won.len(), 1);
    assert_eq!(left(state.path()), [name.as_str()]);
    assert!(won[0].exec(&sh("true")).await.expect("it runs").ok());
    let parts = parts(state.path(), &name);
    won[0].kill().await.expect("ended");
    eventually(Duration::from_secs(5), "nothing is left", || {
        is_gone(state.path(), &name, &parts)
    });
}

#[tokio::test]
async fn a_creation_that_is_given_up_leaves_nothing() {
    let state = state();
    let client = client(state.path(), policy());
    let prefix = unique("given-up");
    let mut kept = 0;
    for delay in [
        0, 200, 500, 1000, 2000, 3000, 4000, 5000, 7000, 10_000, 20_000, 40_000,
    ] {
        // What was given up may still be about to claim its name.
        let name = format!("{prefix}-{delay}");
        let spec = spec(&name);
        let creation = client.create(&spec);
        let created = tokio::time::timeout(Duration::from_micros(delay), creation).await;
        if let Ok(created) = created {
            created.expect("created").kill().await.expect("ended");
            kept += 1;
        }
        // It may be given up when it is kept already: then nobody knows, but it is there, whole.
        for info in client.list().await.expect("a list") {
            // It may end at this moment.
            let _ = client.remove(&info.name).await;
        }
    }
    eventually(Duration::from_secs(5), "nothing is left", || {
        left(state.path()).is_empty()
            && processes_with(&format!("keep\0{prefix}")).is_empty()
            && users_are_free(state.path())
    });
    assert!(kept > 0, "none was waited for long enough");
}

const OWNER: &str = "SANDBOX_TEST_DETACHED_OWNER";

/// The creator is killed: what it has created lives on.
#[test]
fn a_sandbox_survives_its_killed_creator() {
    let test = "detached::a_sandbox_survives_its_killed_creator";
    if let Some(state) = std::env::var_os(OWNER) {
        return own(Path::new(&state));
    }
    let state = state();
    let mut owner = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", test, "--nocapture"])
        .env(OWNER, state.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let output = BufReader::new(owner.stdout.take().expect("piped"));
    let ready = |line: String| line.contains("owner is ready");
    assert!(output.lines().map_while(Result::ok).any(ready));
    let parts = parts(state.path(), "owned");
    eventually(Duration::from_secs(10), "its code runs", || {
        !processes_with("owned-marker").is_empty()
    });
    owner.kill().expect("SIGKILL");
    owner.wait().expect("ended");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = client(state.path(), policy());
        let sandbox = client.get("owned").await.expect("it lives on");
        let result = sandbox.exec(&sh("cat /tmp/kept || cat $TMPDIR/kept")).await;
        assert_eq!(result.expect("it runs").stdout_text(), "kept\n");
        // What the client executed was its own.
        eventually(Duration::from_secs(5), "its execution is gone", || {
            processes_with("owned-marker").is_empty()
        });
        sandbox.kill().await.expect("ended");
    });
    eventually(Duration::from_secs(5), "nothing is left", || {
        is_gone(state.path(), "owned", &parts)
    });
}

fn own(state: &Path) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let sandbox = client(state, policy()).create(&spec("owned")).await;
        let sandbox = sandbox.expect("created");
        let script = format!("echo kept > {}/kept", sandbox.temporary_folder());
        assert!(sandbox.exec(&sh(&script)).await.expect("it runs").ok());
        println!("owner is ready");
        lingering(&sandbox, "owned-marker").await;
    });
}

#[tokio::test]
async fn a_keeper_is_small_and_names_what_it_keeps() {
    let state = state();
    let name = unique("small");
    let client = client(state.path(), policy());
    let sandbox = client.create(&spec(&name)).await.expect("created");
    let keeper = parts(state.path(), &name).keeper;
    let status = std::fs::read_to_string(format!("/proc/{}/status", keeper.as_raw_nonzero()));
    let status = status.expect("it runs");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = resident.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    assert!(kib.is_some_and(|kib| kib < 1024), "{status}");
    sandbox.kill().await.expect("ended");
}

#[tokio::test]
async fn without_control_groups_the_keeper_holds_memory() {
    let state = state();
    let name = unique("sampled");
    let config = LocalConfig::new()
        .state_folder(state.path())
        .without_cgroups();
    let mut policy = policy();
    policy.memory = Some(ByteSize::mib(64));
    let client = client_of(config, policy);
    drop(client.create(&spec(&name)).await.expect("created"));
    let sandbox = client.get(&name).await.expect("found");
    // Two processes, so that no limit of a single one is what ends them.
    let hog = "python3 -c 'import time; a = bytearray(48 << 20); time.sleep(3)'";
    let both = format!("{hog} & first=$!; {hog}; echo $?; wait $first; echo $?");
    let result = sandbox.exec(&sh(&both)).await.expect("it runs");
    let codes = result.stdout_text();
    assert!(codes.lines().any(|code| code == "137"), "{result:?}");
    let kills = state
        .path()
        .join("sandboxes")
        .join(&name)
        .join("memory_kills");
    let kills = std::fs::read_to_string(kills).expect("somebody was killed");
    assert!(
        kills.trim().parse::<u64>().is_ok_and(|kills| kills >= 1),
        "{kills:?}"
    );
    let alone = sandbox
        .exec(&sh(&format!("exec {}", hog.replace("48", "80"))))
        .await;
    let alone = alone.expect("it runs");
    let bounded = matches!(
        alone.outcome,
        Outcome::OutOfMemory | Outcome::Exited { code: 1 }
    );
    assert!(bounded, "{alone:?}");
    sandbox.kill().await.expect("ended");
}

#[tokio::test]
async fn kills_for_memory_are_told_to_who_ran_them() {
    let state = state();
    let name = unique("memory");
    let mut policy = policy();
    policy.memory = Some(ByteSize::mib(64));
    let client = client(state.path(), policy);
    drop(client.create(&spec(&name)).await.expect("created"));
    if parts(state.path(), &name).groups.is_empty() {
        // Sampled: another test.
        return client.remove(&name).await.expect("ended");
    }
    let hog = "exec python3 -c 'a = [bytearray(1 << 20) for _ in range(300)]'";
    let first = client.get(&name).await.expect("found");
    let result = first.exec(&sh(hog)).await.expect("it runs");
    assert_eq!(result.outcome, Outcome::OutOfMemory);
    // A later client is not told of what was before it.
    let second = client.get(&name).await.expect("found");
    let result = second.exec(&sh("kill -9 $$")).await.expect("it runs");
    assert_eq!(result.outcome, Outcome::Signaled { signal: 9 });
    let result = second.exec(&sh(hog)).await.expect("it runs");
    assert_eq!(result.outcome, Outcome::OutOfMemory);
    client.remove(&name).await.expect("ended");
}

#[tokio::test]
async fn a_sandbox_of_another_process_namespace_is_left_alone() {
    let state = state();
    let client = client(state.path(), policy());
    let name = unique("elsewhere");
    let sandbox = client.create(&spec(&name)).await.expect("created");
    let record = parts(state.path(), &name).record;
    let text = std::fs::read(&record).expect("a record");
    let mut json: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    json["era"]["namespace"] = 1.into();
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
    assert_eq!(
        client.list().await.expect_err("unreadable").kind(),
        ErrorKind::Io
    );
    assert!(client.remove(&name).await.is_err());
    assert!(sandbox.exec(&sh("true")).await.expect("it lives").ok());
    sandbox.kill().await.expect("ended");
    assert!(left(state.path()).is_empty());
}

#[tokio::test]
async fn the_policy_it_was_created_under_governs() {
    let state = state();
    let name = unique("governed");
    let mut creators = policy();
    creators.timeout = Some(Duration::from_secs(2));
    creators.stdout_max_bytes = Some(ByteSize::bytes(4));
    let creator = client(state.path(), creators);
    drop(
        creator
            .create(&spec(&name).env("GREETING", "hello"))
            .await
            .expect("created"),
    );
    let mut wide = CapabilityPolicy::new();
    wide.timeout = Some(Duration::from_secs(600));
    wide.stdout_max_bytes = Some(ByteSize::mib(1));
    let sandbox = client(state.path(), wide).get(&name).await.expect("found");
    let result = sandbox
        .exec(&sh("echo $GREETING; sleep 20"))
        .await
        .expect("it runs");
    assert_eq!(result.outcome, Outcome::TimedOut);
    assert_eq!(result.stdout.bytes, b"hell");
    assert!(sandbox.enforcement().iter().count() > 5);
    let mut narrow = CapabilityPolicy::new();
    narrow.stdout_max_bytes = Some(ByteSize::bytes(2));
    let sandbox = client(state.path(), narrow)
        .get(&name)
        .await
        .expect("found");
    let result = sandbox.exec(&sh("echo $GREETING")).await.expect("it runs");
    assert_eq!(result.stdout.bytes, b"he");
    sandbox.stop().await.expect("stopped");
    sandbox.stop().await.expect("harmless");
    assert!(left(state.path()).is_empty());
}

#[tokio::test]
async fn what_the_code_has_closed_is_removed_too() {
    let state = state();
    let client = client(state.path(), policy());
    for way in ["closed-by-keeper", "closed-by-others"] {
        let name = unique(way);
        let sandbox = client.create(&spec(&name)).await.expect("created");
        let script = "cd \"${TMPDIR:-/tmp}\"; for mode in 0 500 300; do mkdir -p $mode/below; touch $mode/file; chmod $mode $mode; done";
        assert!(sandbox.exec(&sh(script)).await.expect("it runs").ok());
        let parts = parts(state.path(), &name);
        if way == "closed-by-others" {
            kill_process(parts.keeper, Signal::KILL).expect("killed");
            eventually(Duration::from_secs(5), "the agent is gone", || {
                !runs(parts.agent)
            });
            assert_eq!(client.prune().await.expect("pruned"), [name.as_str()]);
        } else {
            sandbox.kill().await.expect("ended");
        }
        assert!(left(state.path()).is_empty(), "{way}");
    }
}

#[tokio::test]
async fn the_unsafe_tier_has_detached_sandboxes_of_its_own() {
    let state = state();
    let name = unique("uninsulated");
    let config = LocalConfig::new().state_folder(state.path());
    let backend = || Arc::new(UnsafeLocalBackend::new(config.clone()));
    let open = || SandboxClient::with_backend(backend(), policy()).expect("a valid policy");
    let created = open().create(&spec(&name)).await.expect("created");
    let parts = parts(state.path(), &name);
    drop(created);
    // Its name is taken for all tiers, but only its own finds it.
    let local = client(state.path(), policy());
    let taken = local.create(&spec(&name)).await.expect_err("taken");
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists, "{taken}");
    for error in [
        local.get(&name).await.expect_err("of another tier"),
        local.remove(&name).await.expect_err("of another tier"),
    ] {
        assert_eq!(error.kind(), ErrorKind::SandboxNotFound, "{error}");
        assert!(
            error
                .fix()
                .is_some_and(|fix| fix.contains("-b local_unsafe")),
            "{error}"
        );
    }
    assert!(local.list().await.expect("a list").is_empty());
    let sandbox = open().get(&name).await.expect("found");
    let marker = unique("uninsulated-marker");
    let script = format!("(setsid sh -c 'sleep 60; : {marker}' &) & echo ran");
    let result = sandbox.exec(&sh(&script)).await.expect("it runs");
    assert_eq!(result.stdout_text(), "ran\n");
    assert!(processes_with(&marker).is_empty());
    tokio::join!(lingering(&sandbox, &marker), async {
        while processes_with(&marker).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        open().remove(&name).await.expect("removed");
    });
    eventually(Duration::from_secs(5), "nothing is left", || {
        is_gone(state.path(), &name, &parts) && processes_with(&marker).is_empty()
    });
}
