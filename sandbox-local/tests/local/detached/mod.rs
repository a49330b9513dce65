//! Sandboxes that outlive their creator.

pub mod creation;
pub mod ending;
pub mod memory;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sandbox_core::{
    ByteSize, CapabilityPolicy, ErrorKind, Outcome, SandboxClient, SandboxHandle, SandboxSpec,
    SandboxState,
};
use sandbox_local::{LocalBackend, LocalConfig, UnsafeLocalBackend};
use sandbox_testing::processes;
use sandbox_testing::users::is_root;
use sandbox_testing::wait::{wait_until, wait_until_async};

use crate::harness::{Test, test};

use crate::support::{namespaces, policy, sh};

pub const TESTS: &[Test] = &[
    test!(async detached_sandbox_serves_several_clients_and_ends_completely),
    test!(async creation_policy_limits_later_clients),
    test!(async unsafe_tier_has_separate_detached_sandboxes),
    test!(async code_cannot_reach_the_sandbox_folder),
];

/// A client with its own backend, as in another process.
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

/// The parts of a sandbox, from its record.
struct Parts {
    supervisor: Pid,
    agent: Pid,
    groups: Vec<PathBuf>,
    record: PathBuf,
}

fn parts(state: &Path, name: &str) -> Parts {
    let record = state.join("sandboxes").join(name).join("sandbox.json");
    let text = std::fs::read(&record).expect("a record");
    let json: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let pid = |key: &str| {
        let pid = json["parts"][key]["pid"].as_i64().expect("a number");
        Pid::from_raw(i32::try_from(pid).expect("small")).expect("not 0")
    };
    let groups = json["parts"]["groups"].as_array().expect("a list").iter();
    Parts {
        supervisor: pid("keeper"),
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

/// Whether nothing of the sandbox is left.
fn is_removed(state: &Path, name: &str, parts: &Parts) -> bool {
    !runs(parts.supervisor)
        && !runs(parts.agent)
        && parts.groups.iter().all(|group| !group.exists())
        && !left(state).contains(&name.to_owned())
        && users_are_free(state)
}

/// Whether no supervisor of this state folder holds a range of users. The locks are in one folder
/// of the host, which other state folders use, too.
fn users_are_free(state: &Path) -> bool {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").expect("procfs").flatten();
    let others = processes.filter(|process| process.file_name() != *own);
    let mut opened = others.map(|process| {
        // An ended process has no descriptors.
        let descriptors = std::fs::read_dir(process.path().join("fd"));
        let descriptors = descriptors.into_iter().flatten().flatten();
        let links = descriptors.filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok());
        links.collect::<Vec<_>>()
    });
    !opened.any(|paths| {
        paths.iter().any(|path| path.starts_with(state))
            && paths
                .iter()
                .any(|path| path.starts_with("/run/sandbox/uids"))
    })
}

async fn lingering(sandbox: &SandboxHandle, marker: &str) {
    // The first process ends with its execution.
    let script = format!("sleep 60 & echo ready; exec sh -c 'sleep 60; : {marker}'");
    let result = sandbox.exec(&sh(&script)).await;
    assert!(!result.is_ok_and(|result| result.success()), "it was ended");
}

async fn detached_sandbox_serves_several_clients_and_ends_completely() {
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
    assert_eq!(processes::containing(&format!("keep\0{name}")).len(), 1);
    let second = client(state.path(), policy())
        .create(&spec(&name))
        .await
        .expect_err("the name is taken");
    assert_eq!(second.kind(), ErrorKind::AlreadyExists, "{second}");
    assert_eq!(
        other.prune().await.expect("nothing to do"),
        Vec::<String>::new()
    );

    one.kill().await.expect("ended");
    one.kill().await.expect("harmless");
    two.stop().await.expect("harmless");
    assert!(left(state.path()).is_empty(), "{:?}", left(state.path()));
    wait_until("the supervisor has ended", Duration::from_secs(20), || {
        processes::containing(&format!("keep\0{name}")).is_empty()
    });
    for error in [
        other.get(&name).await.expect_err("ended"),
        other.remove(&name).await.expect_err("ended"),
    ] {
        assert_eq!(error.kind(), ErrorKind::SandboxNotFound, "{error}");
    }
}

async fn creation_policy_limits_later_clients() {
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

async fn unsafe_tier_has_separate_detached_sandboxes() {
    let state = state();
    let name = unique("uninsulated");
    let config = LocalConfig::new().state_folder(state.path());
    let backend = || Arc::new(UnsafeLocalBackend::new(config.clone()));
    let open = || SandboxClient::with_backend(backend(), policy()).expect("a valid policy");
    let created = open().create(&spec(&name)).await.expect("created");
    let parts = parts(state.path(), &name);
    drop(created);
    // The name is used for all tiers, but only its own tier finds the sandbox.
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
    assert!(processes::containing(&marker).is_empty());
    tokio::join!(lingering(&sandbox, &marker), async {
        let runs = async || !processes::containing(&marker).is_empty();
        wait_until_async("the program runs", Duration::from_secs(10), runs).await;
        open().remove(&name).await.expect("removed");
    });
    wait_until("nothing is left", Duration::from_secs(20), || {
        is_removed(state.path(), &name, &parts) && processes::containing(&marker).is_empty()
    });
}

async fn code_cannot_reach_the_sandbox_folder() {
    use std::os::unix::fs::DirBuilderExt;
    let outer = state();
    let state = outer.path().join("state");
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&state)
        .expect("made");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(outer.path(), open).expect("open");
    let mut seeing = policy();
    seeing.filesystem_read_roots = Some(vec![outer.path().to_owned()]);
    for (policy, sees) in [(policy(), false), (seeing, true)] {
        let name = unique("reached");
        let created = client(&state, policy).create(&spec(&name)).await;
        // Without its own root, a folder that contains the state folder cannot be shown.
        let sandbox = match created {
            Err(error) if sees && !namespaces() => {
                assert_eq!(error.kind(), ErrorKind::InvalidPolicy, "{error}");
                continue;
            }
            created => created.expect("created"),
        };
        let folder = state.join("sandboxes").join(&name);
        let folder = folder.display();
        let connect = format!(
            "import socket; socket.socket(socket.AF_UNIX).connect(\"{folder}/agent.sock\"); print(\"connected\")"
        );
        let script = format!("cat {folder}/key; ls {folder}; python3 -c '{connect}'; echo done");
        let result = sandbox.exec(&sh(&script)).await.expect("it runs");
        assert_eq!(result.stdout_text(), "done\n", "{result:?}");
        sandbox.kill().await.expect("ended");
    }
}
