//! Copies of files and folders between host and sandbox.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox_core::{ByteSize, Capability, CapabilityPolicy, SandboxHandle};

use super::{ContractTest, TestBackend, TestResult, output, run_within};

pub const TESTS: &[ContractTest] = &[("folders::are_copied_in_and_out_unchanged", copied)];

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("mode");
}

fn copied(backend: &'static dyn TestBackend) -> TestResult {
    // Pods copy through executions, which on a busy node takes minutes.
    run_within(Duration::from_secs(300), async {
        let mut policy = CapabilityPolicy::new();
        policy.disk = Some(ByteSize::mib(512));
        policy.allow_partial.push(Capability::Disk);
        let sandbox = backend.client(policy).create(&backend.spec()).await?;
        large(&sandbox).await?;
        trees(&sandbox).await?;
        sandbox.kill().await
    })
}

/// 64 MiB are copied in and out unchanged.
async fn large(sandbox: &SandboxHandle) -> sandbox_core::Result<()> {
    let host = tempfile::tempdir().expect("temporary folder");
    let mut hash = blake3::Hasher::new();
    let mut content = vec![0; 64 << 20];
    hash.update(b"seed").finalize_xof().fill(&mut content);
    let source = host.path().join("large");
    std::fs::write(&source, &content).expect("file");
    let copied = sandbox.copy_in(&source, "/workspace/in/").await?;
    assert!(copied.skipped.is_empty(), "{copied:?}");
    output(sandbox, "cp in/large out").await?;
    let target = host.path().join("back");
    sandbox.copy_out("/workspace/out", &target).await?;
    assert!(
        std::fs::read(&target).expect("file") == content,
        "the bytes differ"
    );
    Ok(())
}

/// Trees keep names, modes and empty files.
async fn trees(sandbox: &SandboxHandle) -> sandbox_core::Result<()> {
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
    let copied = sandbox.copy_in(&tree, "/workspace").await?;
    assert!(copied.skipped.is_empty(), "{copied:?}");
    assert_eq!(
        output(
            sandbox,
            "cd 'ünï €' && find . -type f -exec echo \\; | wc -l; ls -A nothing; ./deep/tool"
        )
        .await?,
        "4\n"
    );
    let back = host.path().join("back");
    let copied = sandbox.copy_out("/workspace/ünï €", &back).await?;
    assert!(copied.skipped.is_empty(), "{copied:?}");
    let place = |name: &str| -> PathBuf { back.join(name) };
    assert!(place("nothing").is_dir());
    for (name, content, mode) in files {
        let facts = std::fs::metadata(place(name)).expect(name);
        assert_eq!(std::fs::read_to_string(place(name)).expect(name), content);
        // The host's umask applies.
        assert_eq!(facts.mode() & 0o700, mode & 0o700, "{name}");
    }
    Ok(())
}
