//! Folders of the host in a sandbox.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use sandbox_core::{ErrorKind, SandboxSpec, Workspace};
use sandbox_testing::users::{is_root, open_folder};

use crate::harness::{Need, Test, test};

use crate::support::{client, create, policy, run, sh, spec};

pub const TESTS: &[Test] = &[
    test!(async read_root_is_readable_and_not_writable),
    test!(async disk_traffic_of_an_execution_is_reported, Need::Namespaces),
    test!(async write_root_is_written_as_its_owner),
    test!(async code_starts_in_the_workspace),
    test!(async read_root_in_a_write_root_is_not_writable, Need::Namespaces),
    test!(async unsupported_requests_are_refused_with_a_reason),
    test!(async root_folder_can_be_a_read_root, Need::Namespaces),
    test!(async requested_user_is_used_as_root, Need::Root),
    test!(async matching_files_are_exported, Need::Namespaces),
];

async fn read_root_is_readable_and_not_writable() {
    let folder = open_folder();
    let file = folder.path().join("data");
    std::fs::write(&file, "data").expect("written");
    let link = open_folder();
    let link = link.path().join("link");
    symlink(folder.path(), &link).expect("a link");
    for root in [folder.path(), &link] {
        let mut policy = policy();
        policy.filesystem_read_roots = Some(vec![root.into()]);
        // The link leads out of its folder.
        policy.follow_links = Some(true);
        let script = format!(
            "cat {0}/data; echo x > {0}/data; rm {0}/data; touch {0}/new",
            root.display()
        );
        let result = run(policy, &script).await;
        assert_eq!(result.stdout_text(), "data", "{}", result.stderr_text());
        assert_eq!(std::fs::read_to_string(&file).expect("there"), "data");
        assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 1);
    }
}

async fn write_root_is_written_as_its_owner() {
    let folder = open_folder();
    std::fs::write(folder.path().join("old"), "old").expect("written");
    let mut policy = policy();
    policy.filesystem_write_roots = Some(vec![folder.path().into()]);
    let script = format!(
        "cd {}; cat old; echo new > new; echo changed > old",
        folder.path().display()
    );
    let result = run(policy, &script).await;
    assert!(result.success(), "{}", result.stderr_text());
    let owner = std::fs::metadata(folder.path()).expect("there").uid();
    for (name, content) in [("new", "new\n"), ("old", "changed\n")] {
        let path = folder.path().join(name);
        assert_eq!(std::fs::read_to_string(&path).expect("there"), content);
        assert_eq!(std::fs::metadata(&path).expect("there").uid(), owner);
    }
}

/// What the result says of the disk is what the kernel counts.
async fn disk_traffic_of_an_execution_is_reported() {
    let folder = open_folder();
    let mut policy = policy();
    policy.filesystem_write_roots = Some(vec![folder.path().into()]);
    let script = format!(
        "dd if=/dev/zero of={}/file bs=1M count=8 conv=fsync 2>&1; sed -n 's/^write_bytes: //p' /proc/$$/io",
        folder.path().display()
    );
    let result = run(policy, &script).await;
    let shown = result.stdout_text();
    let counted = shown.lines().last().and_then(|line| line.parse().ok());
    let counted: u64 = counted.unwrap_or_else(|| panic!("{}", result.output()));
    assert_eq!(result.written, Some(counted));
    assert!(result.read.is_some());
    /// `TMPFS_MAGIC` of `linux/magic.h`: a file system in memory has no disk.
    const TMPFS: u32 = 0x0102_1994;
    let system = rustix::fs::statfs(folder.path()).expect("it is there");
    let is_on_disk = u32::try_from(system.f_type) != Ok(TMPFS);
    assert_eq!(counted >= 8 << 20, is_on_disk, "{counted}");
}

async fn code_starts_in_the_workspace() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("input"), "input").expect("written");
    // Only its owner may enter it.
    std::fs::set_permissions(
        folder.path().join("input"),
        std::fs::Permissions::from_mode(0o600),
    )
    .expect("set");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).expect("set");
    for read_only in [false, true] {
        let workspace = match read_only {
            true => Workspace::read_only(folder.path()),
            false => Workspace::read_write(folder.path()),
        };
        let sandbox = client(policy())
            .create(&spec().workspace(workspace))
            .await
            .expect("a sandbox");
        let result = sandbox
            .exec(&sh(
                "cat input; echo x > output && chmod 4755 output; rm -f gone",
            ))
            .await;
        let result = result.expect("it runs");
        assert_eq!(result.stdout_text(), "input", "{}", result.stderr_text());
        let output = folder.path().join("output");
        assert_eq!(output.exists(), !read_only, "{}", result.stderr_text());
        if !read_only {
            let found = std::fs::metadata(&output).expect("there");
            assert_eq!(
                found.uid(),
                std::fs::metadata(folder.path()).expect("there").uid()
            );
            assert_eq!(
                found.mode() & 0o6000,
                0,
                "a set-user-id file was left on the host"
            );
            std::fs::remove_file(&output).expect("removed");
        }
    }
    assert!(std::fs::read_dir(folder.path()).is_ok_and(|entries| entries.count() == 1));
}

async fn read_root_in_a_write_root_is_not_writable() {
    let folder = open_folder();
    std::fs::create_dir(folder.path().join("hooks")).expect("made");
    std::fs::write(folder.path().join("hooks/hook"), "before").expect("written");
    let mut policy = policy();
    policy.filesystem_write_roots = Some(vec![folder.path().into()]);
    policy.filesystem_read_roots = Some(vec![folder.path().join("hooks")]);
    let script = format!(
        "cd {}; echo x > new; echo after > hooks/hook; mv hooks old; rm -rf hooks",
        folder.path().display()
    );
    run(policy, &script).await;
    assert!(folder.path().join("new").exists());
    assert_eq!(
        std::fs::read_to_string(folder.path().join("hooks/hook")).expect("there"),
        "before"
    );
}

async fn unsupported_requests_are_refused_with_a_reason() {
    let refused = |policy: sandbox_core::CapabilityPolicy, spec: SandboxSpec| async move {
        client(policy).create(&spec).await.expect_err("refused")
    };
    let mut missing = policy();
    missing.filesystem_read_roots = Some(vec!["/no/such/folder".into()]);
    let error = refused(missing, spec()).await;
    assert_eq!(error.kind(), ErrorKind::InvalidPolicy);
    assert!(error.to_string().contains("/no/such/folder"), "{error}");

    let error = refused(policy(), spec().image("alpine")).await;
    assert_eq!(error.kind(), ErrorKind::InvalidSpec);
    assert!(error.fix().is_some());

    let error = refused(
        policy(),
        spec().workspace(Workspace::read_write("/no/such/folder")),
    )
    .await;
    assert!(
        error.to_string().contains("workspace /no/such/folder"),
        "{error}"
    );

    let error = refused(policy(), spec().user("0")).await;
    assert_eq!(error.kind(), ErrorKind::InvalidSpec);

    // An earlier sandbox of this process has created it.
    create(policy()).await;
    let mut state = policy();
    let folder = match (is_root(), std::env::var("XDG_RUNTIME_DIR")) {
        (true, _) => "/run/sandbox".to_owned(),
        (false, Ok(runtime)) => format!("{runtime}/sandbox"),
        (false, Err(_)) => format!("/tmp/sandbox-{}", rustix::process::geteuid().as_raw()),
    };
    state.filesystem_read_roots = Some(vec![folder.into()]);
    let error = refused(state, spec()).await;
    assert!(error.to_string().contains("state folder"), "{error}");
}

async fn root_folder_can_be_a_read_root() {
    let mut policy = policy();
    policy.filesystem_read_roots = Some(vec!["/".into()]);
    let result = run(
        policy,
        "ls -d /var /home /proc/self /tmp; ! touch /var/x; ls -A /tmp",
    )
    .await;
    assert!(result.success(), "{}", result.stderr_text());
    assert_eq!(
        result.stdout_text().lines().count(),
        4,
        "{}",
        result.stdout_text()
    );
}

async fn requested_user_is_used_as_root() {
    let sandbox = client(policy())
        .create(&spec().user("4000:5000"))
        .await
        .expect("a sandbox");
    let result = sandbox
        .exec(&sh("id -u; id -g; touch x; stat -c %u:%g x"))
        .await
        .expect("it runs");
    assert_eq!(result.stdout_text(), "4000\n5000\n4000:5000\n");
}

async fn matching_files_are_exported() {
    let out = tempfile::tempdir().expect("a folder");
    let mut policy = policy();
    policy.artifact_export_paths = vec!["/output/*.txt".into(), "/data/deep/er/report.json".into()];
    let sandbox = create(policy).await;
    let script =
        "echo a > /output/a.txt; echo b > /output/b.bin; echo c > /data/deep/er/report.json";
    let result = sandbox.exec(&sh(script)).await.expect("it runs");
    assert!(result.success(), "{}", result.stderr_text());
    let export = sandbox.export(out.path()).await.expect("exported");
    assert_eq!(export.artifacts.len(), 2, "{export:?}");
}
