//! The workspace: owners of its files, mounts in it, and folders that are refused.
#![expect(unsafe_code, reason = "a mount namespace of the test's own")]

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use sandbox_core::{Capability, Enforcement, Error, ErrorKind, ExecResult, Workspace};
use sandbox_testing::users::is_root;

use crate::harness::{Need, Test, test};

use crate::support::{client, namespaces, policy, sh, spec};
use crate::users::alone;

pub const TESTS: &[Test] = &[
    test!(async new_files_belong_to_the_workspace_owner),
    test!(async disk_gap_of_a_workspace_is_reported_and_enforced),
    test!(async workspace_link_is_followed_and_non_folders_are_refused),
    test!(async private_workspace_is_readable_for_code),
    test!(sync nested_mounts_are_visible_and_equally_restricted, Need::Root, Need::Namespaces),
];

async fn run_in(workspace: Workspace, script: &str) -> ExecResult {
    let sandbox = client(policy())
        .create(&spec().workspace(workspace))
        .await
        .expect("a sandbox");
    sandbox.exec(&sh(script)).await.expect("it runs")
}

async fn refused(workspace: Workspace) -> Error {
    let spec = spec().workspace(workspace);
    client(policy()).create(&spec).await.expect_err("refused")
}

/// Owner and permissions.
fn of(path: &Path) -> (u32, u32, u32) {
    let found = std::fs::symlink_metadata(path).expect("there");
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

async fn new_files_belong_to_the_workspace_owner() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("work");
    std::fs::create_dir(&folder).expect("made");
    if is_root() {
        std::os::unix::fs::chown(&folder, Some(4321), Some(4322)).expect("given away");
    }
    let (user, group, _) = of(&folder);
    let result = run_in(
        Workspace::read_write(&folder),
        "pwd; echo x > file; mkdir -p a/b; ln -s file link; ln file hard; mkfifo fifo; install -m 750 file a/b/run; \
         mv a c; chmod 4755 file; chmod 6755 c/b/run; stat -c %u file",
    )
    .await;
    for path in ["file", "c", "c/b", "link", "hard", "fifo", "c/b/run"] {
        let found = of(&folder.join(path));
        assert_eq!(
            (found.0, found.1),
            (user, group),
            "{path}: {}",
            result.stderr_text()
        );
        assert_eq!(
            found.2 & 0o6000,
            0,
            "{path}: no set-user-id or set-group-id bit"
        );
    }
    if namespaces() {
        assert!(result.stdout_text().starts_with("/workspace\n"));
    }
    // Even a privileged program cannot: another owner would be another user of the host.
    run_in(
        Workspace::read_write(&folder),
        "chown 0 file; chown 1001 file; chgrp 4 file",
    )
    .await;
    let found = of(&folder.join("file"));
    assert_eq!((found.0, found.1), (user, group));
}

async fn disk_gap_of_a_workspace_is_reported_and_enforced() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = |workspace: Workspace| async move {
        let spec = spec().workspace(workspace);
        let support = client(policy()).check(&spec).await.expect("checked");
        support
            .report
            .get(Capability::Disk)
            .expect("reported")
            .clone()
    };
    let gap = disk(Workspace::read_write(folder.path())).await;
    assert!(matches!(gap, Enforcement::Partial { .. }), "{gap}");
    if namespaces() {
        let none = disk(Workspace::read_only(folder.path())).await;
        assert!(none.is_enforced(), "{none}");
        assert!(gap.to_string().contains("workspace unbounded"), "{gap}");
    }
    let mut strict = policy();
    strict
        .allow_partial
        .retain(|capability| *capability != Capability::Disk);
    strict
        .allow_unenforced
        .retain(|capability| *capability != Capability::Disk);
    strict.disk = Some(sandbox_core::ByteSize::mib(16));
    let spec = spec().workspace(Workspace::read_write(folder.path()));
    let error = client(strict).create(&spec).await.expect_err("required");
    assert_eq!(error.kind(), ErrorKind::NotEnforceable);
}

async fn workspace_link_is_followed_and_non_folders_are_refused() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("real");
    std::fs::create_dir(&folder).expect("made");
    let link = place.path().join("link");
    symlink("real", &link).expect("a link");
    let result = run_in(Workspace::read_write(&link), "echo x > file").await;
    assert!(result.success(), "{}", result.stderr_text());
    assert!(folder.join("file").exists());

    for bad in ["real/file", "missing", "dangling"] {
        symlink("nowhere", place.path().join("dangling")).ok();
        let error = refused(Workspace::read_only(place.path().join(bad))).await;
        assert!(error.to_string().contains(bad), "{error}");
    }
    for bad in ["/", "/proc", "/proc/self"] {
        let error = refused(Workspace::read_only(bad)).await;
        assert_eq!(error.kind(), ErrorKind::InvalidSpec, "{error}");
        assert!(error.fix().is_some(), "{error}");
    }
}

async fn private_workspace_is_readable_for_code() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("private"), "p").expect("written");
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(folder.path().join("private"), mode(0o600)).expect("set");
    std::fs::set_permissions(folder.path(), mode(0o700)).expect("set");
    for workspace in [
        Workspace::read_only(folder.path()),
        Workspace::read_write(folder.path()),
    ] {
        let result = run_in(workspace, "cat private; cd ..; ls workspace").await;
        assert!(
            result.stdout_text().starts_with('p'),
            "{}",
            result.stderr_text()
        );
    }
}

/// Mounts a file system in the test's own mount namespace.
fn mounted(kind: &str, at: &Path) {
    let status = Command::new("mount")
        .args(["-t", kind, kind])
        .arg(at)
        .status();
    assert!(status.expect("mount is there").success());
}

fn nested_mounts_are_visible_and_equally_restricted() {
    alone(
        "workspace::nested_mounts_are_visible_and_equally_restricted",
        || {
            // SAFETY: this thread alone is concerned, and its files stay as they are.
            let unshared = unsafe { libc::unshare(libc::CLONE_NEWNS) };
            assert_eq!(unshared, 0);
            let private = Command::new("mount")
                .args(["--make-rprivate", "/"])
                .status();
            assert!(private.expect("mount is there").success());
            let place = tempfile::tempdir().expect("a folder");
            let inner = place.path().join("inner");
            std::fs::create_dir(&inner).expect("made");
            mounted("tmpfs", &inner);
            std::fs::write(inner.join("old"), "old").expect("written");
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async {
                let workspace = Workspace::read_write(place.path());
                let result = run_in(
                    workspace,
                    "cat inner/old; echo x > inner/new; umount inner; mknod inner/null c 1 3",
                )
                .await;
                assert_eq!(result.stdout_text(), "old", "{}", result.stderr_text());
                assert_eq!(of(&inner.join("new")).0, of(place.path()).0);
                assert!(!inner.join("null").exists());

                let workspace = Workspace::read_only(place.path());
                let result = run_in(
                    workspace,
                    "cat inner/old; echo x > inner/newer; echo x > newer",
                )
                .await;
                assert_eq!(result.stdout_text(), "old", "{}", result.stderr_text());
                assert!(!inner.join("newer").exists() && !place.path().join("newer").exists());

                // A procfs in the workspace would show the host's processes.
                let proc = place.path().join("proc");
                std::fs::create_dir(&proc).expect("made");
                mounted("proc", &proc);
                let result =
                    run_in(Workspace::read_only(place.path()), "ls /workspace/proc/1").await;
                assert!(!result.success(), "{}", result.stdout_text());

                // The error names a file system that cannot be ID-mapped.
                let error = refused(Workspace::read_write(place.path())).await;
                let fix = error.fix().unwrap_or_default();
                assert!(fix.starts_with("it has proc on "), "{error}");
            });
            let status = Command::new("umount")
                .args(["-R"])
                .arg(place.path().join("proc"))
                .status();
            assert!(status.expect("umount is there").success());
            let status = Command::new("umount").arg(&inner).status();
            assert!(status.expect("umount is there").success());
        },
    );
}
