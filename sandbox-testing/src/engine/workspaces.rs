//! A host folder as workspace, with the right owner.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::Path;

use sandbox_core::{Capability, CapabilityPolicy, ErrorKind, Workspace};

use super::features::user_of_root;
use super::{EngineTest, TestEngine};
use crate::contract::{TestResult, output, run};

pub const TESTS: &[EngineTest] = &[
    ("folders::a_users_workspace_keeps_its_owner", of_a_user),
    (
        "folders::roots_workspace_keeps_its_owner_without_giving_privileges",
        of_root,
    ),
    ("folders::folders_of_two_owners_are_refused", of_two),
];

fn folder(owner: u32, mode: u32) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("temporary folder");
    std::os::unix::fs::chown(folder.path(), Some(owner), Some(owner)).expect("owner");
    set_mode(folder.path(), mode);
    folder
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("mode");
}

async fn writes(
    engine: &'static TestEngine,
    workspace: &Path,
) -> sandbox_core::Result<(String, u32)> {
    let client = engine.client(CapabilityPolicy::new());
    let asked = engine.spec().workspace(Workspace::read_write(workspace));
    let sandbox = client.create(&asked).await?;
    let id = output(
        &sandbox,
        "echo x > made; id -u; grep CapEff /proc/self/status",
    )
    .await?;
    sandbox.kill().await?;
    let made = std::fs::metadata(workspace.join("made")).expect("made");
    Ok((id, made.uid()))
}

fn of_a_user(engine: &'static TestEngine) -> TestResult {
    run(async {
        let first = user_of_root(engine).await;
        let folder = folder(first + 4321, 0o700);
        let (printed, owner) = writes(engine, folder.path()).await?;
        assert!(printed.starts_with("4321\n"), "{printed}");
        assert_eq!(owner, first + 4321);
        Ok(())
    })
}

fn of_root(engine: &'static TestEngine) -> TestResult {
    run(async {
        let first = user_of_root(engine).await;
        let folder = folder(first, 0o755);
        let (printed, owner) = writes(engine, folder.path()).await?;
        assert_eq!(printed, "0\nCapEff:\t0000000000000000\n");
        assert_eq!(owner, first);
        // An explicit limit is required. Code that has the agent's user can disturb the process
        // that enforces it.
        let mut policy = CapabilityPolicy::new();
        policy.timeout = Some(std::time::Duration::from_secs(5));
        let asked = engine
            .spec()
            .workspace(Workspace::read_write(folder.path()));
        let error = engine
            .client(policy.clone())
            .create(&asked)
            .await
            .expect_err("partial");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        policy.allow_partial = vec![Capability::Timeout];
        engine.client(policy).create(&asked).await?.kill().await
    })
}

fn of_two(engine: &'static TestEngine) -> TestResult {
    run(async {
        let first = user_of_root(engine).await;
        let (one, other) = (folder(first + 4321, 0o755), folder(0, 0o755));
        let mut policy = CapabilityPolicy::new();
        policy.filesystem_write_roots = Some(vec![other.path().to_owned()]);
        let asked = engine.spec().workspace(Workspace::read_write(one.path()));
        let error = engine
            .client(policy)
            .create(&asked)
            .await
            .expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidSpec, "{error}");
        assert!(error.to_string().contains("belongs to user 0"), "{error}");
        Ok(())
    })
}
