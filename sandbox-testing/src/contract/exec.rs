//! Executions: input, output and outcome.

use std::sync::Arc;

use sandbox_core::{CapabilityPolicy, ErrorKind, ExecRequest, OneShot, SandboxHandle};

use super::{BUSYBOX_USER, ContractTest, SCRATCH, TestBackend, TestResult, output, run};

pub const TESTS: &[ContractTest] = &[
    ("exec::an_image_without_any_program_can_be_used", scratch),
    (
        "exec::user_workdir_and_entrypoint_of_the_image_are_overridden",
        image_configuration,
    ),
    ("exec::ten_concurrent_sandboxes_are_separate", parallel),
    ("exec::outputs_are_intact_and_separate", outputs),
];

/// Pseudorandom bytes, which compress badly and do not repeat.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn outputs(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.artifact_export_paths = vec!["/output/*.txt".into(), "/workspace/r.json".into()];
        let sandbox = Arc::new(backend.client(policy).create(&backend.spec()).await?);
        sixteen_mebibytes(&sandbox).await?;
        ten_at_once(&sandbox).await?;
        artifacts(&sandbox).await?;
        // A name is looked up on the sandbox's path.
        let missing = ExecRequest::new("no-such-program");
        let error = sandbox.exec(&missing).await.expect_err("missing");
        assert_eq!(error.kind(), ErrorKind::ProgramNotFound, "{error}");
        sandbox.kill().await
    })
}

/// What goes in as a file comes out unchanged.
async fn sixteen_mebibytes(sandbox: &SandboxHandle) -> sandbox_core::Result<()> {
    let content = noise(16 << 20);
    let source = std::io::Cursor::new(content.clone());
    sandbox.upload("/tmp/deep/noise", 0o600, source).await?;
    let result = sandbox
        .exec(&ExecRequest::new("cat").arg("/tmp/deep/noise"))
        .await?;
    assert!(result.success() && !result.truncated() && result.incomplete.is_none());
    assert!(
        result.stdout.bytes == content,
        "what came out is not what went in"
    );
    Ok(())
}

/// Ten concurrent executions keep their output separate.
async fn ten_at_once(sandbox: &Arc<SandboxHandle>) -> sandbox_core::Result<()> {
    let runs = (0..10).map(|number| {
        let sandbox = Arc::clone(sandbox);
        tokio::spawn(async move { output(&sandbox, &format!("sleep 0.1; echo {number}")).await })
    });
    for (number, run) in runs.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(run.await.expect("no panic")?, format!("{number}\n"));
    }
    Ok(())
}

/// Files that the policy names are exported, and no others.
async fn artifacts(sandbox: &SandboxHandle) -> sandbox_core::Result<()> {
    let script = "echo a > /output/a.txt; echo b > /output/b.bin; echo {} > r.json";
    output(sandbox, script).await?;
    let folder = tempfile::tempdir().expect("temporary folder");
    let export = sandbox.export(folder.path()).await?;
    let sources = export.artifacts.iter().map(|a| a.source.clone());
    let mut paths = sources.collect::<Vec<_>>();
    paths.sort();
    assert_eq!(paths, ["/output/a.txt", "/workspace/r.json"], "{export:?}");
    Ok(())
}

fn scratch(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let client = backend.client(CapabilityPolicy::new());
        let sandbox = client.create(&backend.spec().image(SCRATCH)).await?;
        assert_eq!(sandbox.read("/only-file").await?, b"the only file\n");
        sandbox.write("/workspace/made", "here").await?;
        assert_eq!(sandbox.read("/workspace/made").await?, b"here");
        let error = sandbox.shell("true").await.expect_err("there is no shell");
        assert_eq!(error.kind(), ErrorKind::ProgramNotFound);
        sandbox.kill().await
    })
}

fn image_configuration(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let client = backend.client(CapabilityPolicy::new());
        let sandbox = client
            .create(&backend.spec().image(BUSYBOX_USER).user("1234:5678"))
            .await?;
        assert_eq!(
            output(&sandbox, "id -u; id -g; pwd").await?,
            "1234\n5678\n/workspace\n"
        );
        assert_eq!(output(&sandbox, "echo x > file && cat file").await?, "x\n");
        sandbox.kill().await
    })
}

fn parallel(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let client = backend.client(CapabilityPolicy::new());
        let runs = (0..10).map(|number: u8| {
            let client = client.clone();
            tokio::spawn(async move {
                let script = format!("echo {number}; exit {number}");
                client.run_shell(script, OneShot::new(backend.spec())).await
            })
        });
        for (number, run) in runs.collect::<Vec<_>>().into_iter().enumerate() {
            let result = run.await.expect("no panic")?;
            assert_eq!(
                result.exit_code(),
                Some(i32::try_from(number).expect("small"))
            );
            assert_eq!(result.stdout_text(), format!("{number}\n"));
        }
        Ok(())
    })
}
