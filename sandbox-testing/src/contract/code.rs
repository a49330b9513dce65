//! Code of the languages that the test images have: Python and the shell.

use sandbox_core::{CapabilityPolicy, ErrorKind, ExecRequest, OneShot, Stdin};
use sandbox_lang::{CodeRequest, RunCode, RunCodeOnce};

use super::{ContractTest, PYTHON, TestBackend, TestResult, output, run};

pub const TESTS: &[ContractTest] = &[
    ("code::python_and_shell_run_in_their_own_folder", languages),
    ("code::missing_language_is_an_error_with_a_fix", missing),
    ("code::one_shot_runs_code", one_shot),
    (
        "code::relative_paths_start_in_the_working_folder",
        relative_paths,
    ),
];

fn languages(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let client = backend.client(CapabilityPolicy::new());
        let sandbox = client.create(&backend.spec().image(PYTHON)).await?;
        let code = "import os, sys, string\n\
                    print(os.listdir(os.path.dirname(__file__)), sys.argv[1], input(), open('in').read())\n\
                    raise ValueError\n";
        let request = CodeRequest::new("python", code)
            .arg("one")
            .file("in", "two")
            .stdin(Stdin::from_bytes("three\n"));
        let result = sandbox.run_code(request).await?;
        let ran = result.ran().expect("it is not compiled");
        assert_eq!(ran.stdout_text(), "['run-code.py'] one three two\n");
        assert_eq!(ran.exit_code(), Some(1));
        assert!(
            ran.stderr_text().contains("line 3"),
            "{}",
            ran.stderr_text()
        );
        let request = CodeRequest::new("sh", "read -r line; echo \"$1 $line\"; exit 3");
        let request = request.arg("one").stdin(Stdin::from_bytes("two\n"));
        let result = sandbox.run_code(request).await?;
        let ran = result.ran().expect("it is not compiled");
        assert_eq!(
            (ran.stdout_text().as_str(), ran.exit_code()),
            ("one two\n", Some(3))
        );
        let listed = output(&sandbox, "ls -a /tmp").await?;
        assert!(!listed.contains("sandbox-code"), "{listed}");
        sandbox.kill().await
    })
}

fn missing(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let sandbox = backend.sandbox().await?;
        for language in ["go", "java"] {
            let error = sandbox.run_code(CodeRequest::new(language, "")).await;
            let error = error.expect_err("busybox has none");
            assert_eq!(error.kind(), ErrorKind::ProgramNotFound, "{error}");
            assert!(
                error.fix().is_some_and(|fix| fix.contains("use an image")),
                "{error}"
            );
        }
        sandbox.kill().await
    })
}

fn one_shot(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let client = backend.client(CapabilityPolicy::new());
        let options = OneShot::new(backend.spec().image(PYTHON));
        let request = CodeRequest::new("py", "print(6 * 7)");
        let ended = client.run_code(request, options).await?;
        assert_eq!(ended.code.check()?.stdout_text(), "42\n");
        assert!(ended.failures.is_empty(), "{:?}", ended.failures);
        Ok(())
    })
}

fn relative_paths(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let policy = CapabilityPolicy::new().artifact_export_path("out/*.txt");
        let sandbox = backend.client(policy).create(&backend.spec()).await?;
        let tool = "#!/bin/sh\ncat in; mkdir out; cp in out/copy.txt";
        sandbox.upload("bin/tool", 0o755, tool.as_bytes()).await?;
        sandbox.write("in", "text").await?;
        let result = sandbox.exec(&ExecRequest::new("bin/tool")).await?;
        assert_eq!(result.check()?.stdout_text(), "text");
        let moved = ExecRequest::new("cat").arg("copy.txt").workdir("out");
        assert_eq!(sandbox.exec(&moved).await?.check()?.stdout_text(), "text");
        assert_eq!(sandbox.read("out/copy.txt").await?, b"text");
        let host = tempfile::tempdir().expect("a folder");
        let export = sandbox.export(host.path()).await?;
        assert_eq!(export.artifacts.len(), 1, "{export:?}");
        assert_eq!(export.artifacts[0].source, "./out/copy.txt");
        sandbox.copy_out("out", host.path().join("copied")).await?;
        let copied = std::fs::read(host.path().join("copied/copy.txt")).expect("copied");
        assert_eq!(copied, b"text");
        sandbox.copy_in(host.path().join("copied"), "back").await?;
        assert_eq!(sandbox.read("back/copy.txt").await?, b"text");
        sandbox.kill().await
    })
}
