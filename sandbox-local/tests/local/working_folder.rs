//! Relative paths, and programs that the search path of a sandbox adds.

use sandbox_core::{ErrorKind, ExecRequest, SandboxHandle};
use sandbox_testing::users::open_folder;

use crate::harness::{Need, Test, test};
use crate::support::{client, create, namespaces, policy, sh, spec};

pub const TESTS: &[Test] = &[
    test!(async relative_paths_start_in_the_working_folder),
    test!(async relative_paths_start_in_the_folder_of_the_specification),
    test!(async relative_export_paths_start_in_the_working_folder),
    test!(async python_is_python3_and_hides_nothing, Need::Program("python3"), Need::Namespaces),
];

async fn text(sandbox: &SandboxHandle, request: ExecRequest) -> String {
    let result = sandbox.exec(&request).await.expect("it runs");
    result.check().expect("it succeeds").stdout_text()
}

/// Uses relative paths in every operation.
async fn check(sandbox: &SandboxHandle) {
    let script = "#!/bin/sh\npwd; cat \"$1\"";
    sandbox
        .upload("bin/tool", 0o755, script.as_bytes())
        .await
        .expect("written");
    sandbox.write("note", "a note\n").await.expect("written");
    let folder = text(sandbox, sh("pwd")).await;
    let folder = folder.trim_end();
    assert_eq!(
        sandbox
            .read(&format!("{folder}/note"))
            .await
            .expect("there"),
        b"a note\n"
    );
    assert_eq!(
        sandbox.read_to_string("./note").await.expect("there"),
        "a note\n"
    );
    let tool = ExecRequest::new("bin/tool").arg("note");
    assert_eq!(text(sandbox, tool).await, format!("{folder}\na note\n"));
    let tool = ExecRequest::new("./tool").arg("../note").workdir("bin");
    assert_eq!(text(sandbox, tool).await, format!("{folder}/bin\na note\n"));
    let host = open_folder();
    std::fs::write(host.path().join("new"), "copied").expect("written");
    let source = host.path().join("new");
    let copied = sandbox.copy_in(&source, "deep/er/").await.expect("copied");
    assert_eq!(copied.skipped, []);
    sandbox
        .copy_out("deep", host.path().join("out"))
        .await
        .expect("copied");
    let back = std::fs::read(host.path().join("out/er/new")).expect("copied");
    assert_eq!(back, b"copied");
    let missing = sandbox.read("missing").await.expect_err("missing");
    assert_eq!(missing.kind(), ErrorKind::Path, "{missing}");
    let missing = sandbox.exec(&sh("true").workdir("missing")).await;
    assert_eq!(missing.expect_err("missing").kind(), ErrorKind::BadWorkdir);
}

async fn relative_paths_start_in_the_working_folder() {
    let sandbox = create(policy()).await;
    check(&sandbox).await;
    sandbox.kill().await.expect("it ends");
}

async fn relative_paths_start_in_the_folder_of_the_specification() {
    let (folder, host);
    let mut policy = policy();
    let spec = match namespaces() {
        true => spec().workdir("/tmp"),
        // Without its own root, only folders of the host have a known path.
        false => {
            host = open_folder();
            folder = host.path().to_string_lossy().into_owned();
            policy = policy.filesystem_write_root(host.path());
            spec().workdir(&folder)
        }
    };
    let workdir = spec.workdir.clone().expect("it is set");
    let sandbox = client(policy).create(&spec).await.expect("a sandbox");
    assert_eq!(text(&sandbox, sh("pwd")).await.trim_end(), workdir);
    check(&sandbox).await;
    sandbox.kill().await.expect("it ends");
}

async fn relative_export_paths_start_in_the_working_folder() {
    let policy = policy()
        .artifact_export_path("*.csv")
        .artifact_export_path("a/b/c.txt");
    let sandbox = create(policy).await;
    let script =
        "mkdir -p a/b; echo 1 > x.csv; echo 2 > a/b/c.txt; echo 3 > a/no.csv; echo 4 > no.txt";
    text(&sandbox, sh(script)).await;
    let out = open_folder();
    let export = sandbox.export(out.path()).await.expect("exported");
    let mut names = export
        .artifacts
        .iter()
        .map(|one| one.source.as_str())
        .collect::<Vec<_>>();
    names.sort_unstable();
    assert_eq!(names, ["./a/b/c.txt", "./x.csv"], "{export:?}");
    assert_eq!(
        std::fs::read(out.path().join("x.csv")).expect("there"),
        b"1\n"
    );
    assert_eq!(
        std::fs::read(out.path().join("c.txt")).expect("there"),
        b"2\n"
    );
    sandbox.kill().await.expect("it ends");
}

async fn python_is_python3_and_hides_nothing() {
    let sandbox = create(policy()).await;
    let code = "import sys; print(sys.version_info[0], sys.prefix)";
    let run = |program: &str| text(&sandbox, ExecRequest::new(program).args(["-c", code]));
    assert_eq!(run("python").await, run("python3").await);
    let path = text(&sandbox, sh("echo $PATH")).await;
    assert!(path.starts_with(sandbox_host::PATH), "{path}");
    let script = "for folder in /.sandbox /.sandbox/bin; do touch $folder/x 2>&1 && echo written; done; true";
    let attack = text(&sandbox, sh(script)).await;
    assert!(!attack.contains("written"), "{attack}");
    sandbox.kill().await.expect("it ends");
}
