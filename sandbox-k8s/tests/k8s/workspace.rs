//! A workspace that is copied into the sandbox and back.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use sandbox_core::{
    ByteSize, Capability, CapabilityPolicy, ErrorKind, HostChange, SkipReason, Workspace,
};
use sandbox_k8s::PodProfile;

use crate::cluster::{client, client_of, output, run, small};
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[
    ("workspace::changed_files_are_copied_back", changed),
    ("workspace::hostile_entries_are_not_copied_back", hostile),
    (
        "workspace::a_read_only_workspace_is_not_copied_back",
        read_only,
    ),
    (
        "workspace::a_workspace_that_does_not_fit_is_refused",
        too_large,
    ),
];

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_else(|error| format!("{name}: {error}"))
}

fn changed() -> TestResult {
    run(async {
        let folder = tempfile::tempdir()?;
        let host = folder.path();
        fs::create_dir(host.join("sub"))?;
        for name in ["same", "edited", "sub/both", "gone", "away"] {
            fs::write(host.join(name), "host\n")?;
        }
        symlink("/etc/passwd", host.join("link"))?;
        let spec = small("workspace").workspace(Workspace::read_write(host));
        let sandbox = client().create(&spec).await?;
        let brought = sandbox.workspace().expect("a copy").brought;
        assert_eq!(brought.files, 5);
        assert!(matches!(brought.skipped[..], [ref link] if link.reason == SkipReason::Symlink));
        let script = "pwd; cat sub/both; echo guest > edited; echo guest > sub/both; echo guest > away; rm gone; mkdir -p new/deep; echo guest > new/deep/file; echo guest > met; chmod 755 new/deep/file";
        assert_eq!(output(&sandbox, script).await, "/workspace\nhost\n");

        fs::write(host.join("sub/both"), "changed\n")?;
        fs::write(host.join("same"), "changed\n")?;
        fs::write(host.join("met"), "made\n")?;
        fs::remove_file(host.join("away"))?;
        let synced = sandbox.sync().await?.expect("a sync");
        assert_eq!(
            (synced.copied.files, synced.unchanged),
            (2, 1),
            "{synced:?}"
        );
        assert!(!synced.is_whole());
        let conflicts: Vec<_> = synced
            .conflicts
            .iter()
            .map(|it| (&*it.path, it.host))
            .collect();
        assert_eq!(
            conflicts,
            [
                ("away", HostChange::Removed),
                ("met", HostChange::Appeared),
                ("sub/both", HostChange::Changed)
            ]
        );
        assert_eq!(synced.removed, ["gone"]);
        for (name, content) in [
            ("edited", "guest\n"),
            ("new/deep/file", "guest\n"),
            ("sub/both", "changed\n"),
            ("same", "changed\n"),
            ("met", "made\n"),
            ("gone", "host\n"),
        ] {
            assert_eq!(read(host, name), content, "{name}");
        }
        assert!(!host.join("away").exists());

        // The next sync copies only later changes. A stop syncs, too.
        output(&sandbox, "echo again > edited").await;
        let second = sandbox.sync().await?.expect("a sync");
        assert_eq!(
            (second.copied.files, second.unchanged),
            (1, 2),
            "{second:?}"
        );
        output(&sandbox, "echo last > edited").await;
        sandbox.stop().await?;
        assert_eq!(read(host, "edited"), "last\n");
        let report = sandbox.workspace().expect("a copy");
        assert_eq!(report.synced.expect("a sync").copied.files, 1);
        sandbox.stop().await?;
        Ok(())
    })
}

fn hostile() -> TestResult {
    run(async {
        let folder = tempfile::tempdir()?;
        let outside = tempfile::tempdir()?;
        let host = folder.path().join("work");
        fs::create_dir(&host)?;
        fs::create_dir(host.join("sub"))?;
        fs::write(host.join("file"), "host\n")?;
        let spec = small("hostile").workspace(Workspace::read_write(&host));
        let sandbox = client().create(&spec).await?;
        let script = "ln -s /etc/passwd link; mkfifo pipe; printf x > \"$(printf 'a\\nb')\"; echo guest > sub/new; rm file; mkdir file; echo guest > file/in; truncate -s 1T huge; ln -s .. up";
        output(&sandbox, script).await;
        // The host replaces a folder with a link.
        fs::remove_dir(host.join("sub"))?;
        symlink(outside.path(), host.join("sub"))?;
        let synced = sandbox.sync().await?.expect("a sync");
        let reason = |name: &str| {
            let path = format!("/workspace/{name}");
            let skipped = synced.copied.skipped.iter().find(|it| it.source == path);
            skipped.map(|it| it.reason.clone())
        };
        assert_eq!(reason("link"), Some(SkipReason::Symlink));
        assert_eq!(reason("up"), Some(SkipReason::Symlink));
        assert_eq!(reason("pipe"), Some(SkipReason::SpecialFile));
        assert_eq!(reason("sub/new"), Some(SkipReason::NameTaken));
        assert_eq!(reason("file"), Some(SkipReason::NameTaken));
        assert_eq!(reason("file/in"), Some(SkipReason::NameTaken));
        assert!(!host.join("huge").exists(), "{synced:?}");
        assert_eq!(read(&host, "a\nb"), "x");
        assert_eq!(read(&host, "file"), "host\n");
        assert_eq!(fs::read_dir(outside.path())?.count(), 0);
        assert_eq!(fs::read_dir(folder.path())?.count(), 1);
        sandbox.kill().await?;
        Ok(())
    })
}

fn read_only() -> TestResult {
    run(async {
        let folder = tempfile::tempdir()?;
        let host = folder.path();
        fs::write(host.join("file"), "host\n")?;
        let spec = small("read-only").workspace(Workspace::read_only(host));
        let sandbox = client().create(&spec).await?;
        output(&sandbox, "echo guest > file; echo guest > new").await;
        let synced = sandbox.sync().await?.expect("a sync");
        assert_eq!(synced.copied.files, 0);
        sandbox.stop().await?;
        assert_eq!(read(host, "file"), "host\n");
        assert!(!host.join("new").exists());
        Ok(())
    })
}

fn too_large() -> TestResult {
    run(async {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("large"), vec![7; 3 << 20])?;
        let mut policy = CapabilityPolicy::new();
        policy.disk = Some(ByteSize::mib(4));
        policy.allow_partial = vec![Capability::Disk];
        let client = client_of(PodProfile::Hardened, policy);
        let spec = small("large").workspace(Workspace::read_write(folder.path()));
        let error = client.create(&spec).await.expect_err("no room");
        assert_eq!(error.kind(), ErrorKind::Path, "{error}");
        let fix = error.fix().unwrap_or_default();
        assert!(fix.contains("disk"), "{error}: {fix}");

        let missing = small("missing").workspace(Workspace::read_write("/no/such/folder"));
        let error = client.create(&missing).await.expect_err("no folder");
        assert_eq!(error.kind(), ErrorKind::InvalidSpec, "{error}");
        Ok(())
    })
}
