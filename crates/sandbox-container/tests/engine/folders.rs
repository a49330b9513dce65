//! Files between host and sandbox: the workspace with the right owner, and copies of every kind.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};

use libtest_mimic::Failed;
use sandbox_core::{ArtifactLimits, ByteSize, Capability, CapabilityPolicy, ErrorKind, Workspace};

use crate::suite::Test;
use crate::suite::abilities::first_user;
use crate::suite::engine::{client, output, run, sandbox, spec};

pub const TESTS: &[Test] = &[
    (
        "folders::a_workspace_of_an_ordinary_user_stays_his",
        of_a_user,
    ),
    (
        "folders::a_workspace_of_root_stays_roots_without_roots_rights",
        of_root,
    ),
    ("folders::folders_of_two_owners_are_refused", of_two),
    ("folders::64_mib_go_in_and_come_out_unchanged", large),
    ("folders::trees_keep_names_modes_and_empty_files", trees),
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

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

async fn writes(workspace: &Path) -> sandbox_core::Result<(String, u32)> {
    let client = client(CapabilityPolicy::new());
    let asked = spec().workspace(Workspace::read_write(workspace));
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

fn of_a_user() -> Result<(), Failed> {
    if !is_root() {
        return Ok(());
    }
    run(async {
        let first = first_user().await;
        let folder = folder(first + 4321, 0o700);
        let (said, owner) = writes(folder.path()).await?;
        assert!(said.starts_with("4321\n"), "{said}");
        assert_eq!(owner, first + 4321);
        Ok(())
    })
}

fn of_root() -> Result<(), Failed> {
    if !is_root() {
        return Ok(());
    }
    run(async {
        let first = first_user().await;
        let folder = folder(first, 0o755);
        let (said, owner) = writes(folder.path()).await?;
        assert_eq!(said, "0\nCapEff:\t0000000000000000\n");
        assert_eq!(owner, first);
        // A limit that somebody wrote is required: beside its agent's user, code can disturb what keeps it.
        let mut policy = CapabilityPolicy::new();
        policy.timeout = Some(std::time::Duration::from_secs(5));
        let asked = spec().workspace(Workspace::read_write(folder.path()));
        let error = client(policy.clone())
            .create(&asked)
            .await
            .expect_err("partial");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        policy.allow_partial = vec![Capability::Timeout];
        client(policy).create(&asked).await?.kill().await
    })
}

fn of_two() -> Result<(), Failed> {
    if !is_root() {
        return Ok(());
    }
    run(async {
        let first = first_user().await;
        let (one, other) = (folder(first + 4321, 0o755), folder(0, 0o755));
        let mut policy = CapabilityPolicy::new();
        policy.filesystem_write_roots = Some(vec![other.path().to_owned()]);
        let asked = spec().workspace(Workspace::read_write(one.path()));
        let error = client(policy).create(&asked).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidSpec, "{error}");
        assert!(error.to_string().contains("belongs to user 0"), "{error}");
        Ok(())
    })
}

fn large() -> Result<(), Failed> {
    run(async {
        let host = tempfile::tempdir().expect("temporary folder");
        let mut hash = blake3::Hasher::new();
        let mut content = vec![0; 64 << 20];
        hash.update(b"seed").finalize_xof().fill(&mut content);
        let source = host.path().join("large");
        std::fs::write(&source, &content).expect("file");
        let mut policy = CapabilityPolicy::new();
        policy.disk = Some(ByteSize::mib(512));
        policy.allow_partial.push(Capability::Disk);
        let sandbox = client(policy).create(&spec()).await?;
        let copied = sandbox.copy_in(&source, "/workspace/in/").await?;
        assert!(copied.skipped.is_empty(), "{copied:?}");
        output(&sandbox, "cp in/large out").await?;
        let target = host.path().join("back");
        let limits = ArtifactLimits::default();
        sandbox.copy_out("/workspace/out", &target, limits).await?;
        assert!(
            std::fs::read(&target).expect("file") == content,
            "the bytes differ"
        );
        sandbox.kill().await
    })
}

fn trees() -> Result<(), Failed> {
    run(async {
        let host = tempfile::tempdir().expect("temporary folder");
        let tree = host.path().join("ünï €");
        std::fs::create_dir_all(tree.join("deep/er")).expect("folders");
        let files: [(&str, &str, u32); 4] = [
            ("empty", "", 0o644),
            ("deep/er/a b\n", "odd name", 0o600),
            ("deep/tool", "#!/bin/sh\n", 0o755),
            ("日本", "text", 0o640),
        ];
        for (name, content, mode) in files {
            std::fs::write(tree.join(name), content).expect("file");
            set_mode(&tree.join(name), mode);
        }
        std::fs::create_dir(tree.join("nothing")).expect("folder");
        let sandbox = sandbox().await?;
        let copied = sandbox.copy_in(&tree, "/workspace").await?;
        assert!(copied.skipped.is_empty(), "{copied:?}");
        assert_eq!(
            output(
                &sandbox,
                "cd 'ünï €' && find . -type f -exec echo \\; | wc -l; ls -A nothing; ./deep/tool"
            )
            .await?,
            "4\n"
        );
        let back = host.path().join("back");
        let copied = sandbox
            .copy_out("/workspace/ünï €", &back, ArtifactLimits::default())
            .await?;
        assert!(copied.skipped.is_empty(), "{copied:?}");
        let place = |name: &str| -> PathBuf { back.join(name) };
        assert!(place("nothing").is_dir());
        for (name, content, mode) in files {
            let facts = std::fs::metadata(place(name)).expect(name);
            assert_eq!(std::fs::read_to_string(place(name)).expect(name), content);
            // The host's own mask applies.
            assert_eq!(facts.mode() & 0o700, mode & 0o700, "{name}");
        }
        sandbox.kill().await
    })
}
