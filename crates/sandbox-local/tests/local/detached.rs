//! Sandboxes that outlive their creator.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sandbox_core::{CapabilityPolicy, ErrorKind, SandboxClient, SandboxSpec, SandboxState};
use sandbox_local::{LocalBackend, LocalConfig};

use crate::support::{eventually, namespaces, policy, processes_with, sh};

/// A client of its own backend, as another process would have it.
fn client(state: &Path, policy: CapabilityPolicy) -> SandboxClient {
    let config = LocalConfig::new().state_folder(state);
    let config = if namespaces() {
        config
    } else {
        config.without_user_namespaces()
    };
    let backend = Arc::new(LocalBackend::new(config));
    SandboxClient::with_backend(backend, policy).expect("a valid policy")
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
    let name = format!("used-{}", std::process::id());
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
    let again = other
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
