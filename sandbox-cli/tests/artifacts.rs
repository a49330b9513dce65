//! `sandbox run`: exported files.

#![cfg(feature = "local")]

mod common;

use std::path::Path;
use std::process::Output;

use common::{checkout, run_json, sandbox, text};
use serde_json::Value;

fn run_in(folder: &Path, arguments: &[&str]) -> Output {
    sandbox(arguments).current_dir(folder).output().unwrap()
}

/// The first command of the README.
#[test]
fn example_prints_result_and_exports_artifact() {
    let folder = tempfile::tempdir().unwrap();
    let example = checkout().join("examples/sales");
    let script = example.join("analysis.py");
    let arguments = [
        "run",
        script.to_str().unwrap(),
        "--read",
        example.to_str().unwrap(),
        "--artifact",
        "/output/summary.json",
    ];
    let output = run_in(folder.path(), &arguments);
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(
        text(&output.stdout).starts_with("200 orders, revenue "),
        "{}",
        text(&output.stdout)
    );
    let path = folder
        .path()
        .canonicalize()
        .unwrap()
        .join("artifacts/summary.json");
    assert!(
        stderr.contains(&format!("sandbox: artifact {} (", path.display())),
        "{stderr}"
    );
    assert!(stderr.contains("application/json"), "{stderr}");
    assert!(
        stderr.contains("sandbox: local: enforced filesystem, network"),
        "{stderr}"
    );
    let summary: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(summary["orders"], 200);
    assert_eq!(
        summary["unusual_orders"],
        serde_json::json!(["1058", "1179"])
    );
    // A second run overwrites nothing.
    assert!(run_in(folder.path(), &arguments).status.success());
    assert!(folder.path().join("artifacts/summary-1.json").exists());
}

#[test]
fn out_option_alone_exports_output_folder() {
    let folder = tempfile::tempdir().unwrap();
    let script = "mkdir /output/sub; echo a > /output/a.txt; echo b > /output/sub/b.txt; ln -s /etc/passwd /output/link";
    let output = run_in(
        folder.path(),
        &["run", "--out", "out", "--", "/bin/sh", "-c", script],
    );
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(
        std::fs::read_to_string(folder.path().join("out/a.txt")).unwrap(),
        "a\n"
    );
    assert_eq!(
        std::fs::read_to_string(folder.path().join("out/sub/b.txt")).unwrap(),
        "b\n"
    );
    assert!(!folder.path().join("out/link").exists());
    assert!(
        stderr.contains("skipped artifact /output/link: a symbolic link"),
        "{stderr}"
    );
}

#[test]
fn empty_artifact_folder_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_in(folder.path(), &["run", "--out", "out", "--", "true"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!folder.path().join("out").exists());
    let output = run_in(
        folder.path(),
        &["run", "--artifact", "/output/x", "--", "true"],
    );
    assert!(output.status.success());
    assert!(
        text(&output.stderr).contains("skipped artifact /output/x: not found"),
        "{}",
        text(&output.stderr)
    );
    assert!(!folder.path().join("artifacts").exists());
}

#[test]
fn file_names_from_sandbox_are_escaped_on_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let code = "open('/output/\\x1b[31mred\\n.txt', 'w').write('x')";
    let output = run_in(folder.path(), &["run", "--out", "out", "-c", code]);
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("\\u{1b}[31mred\\n.txt"), "{stderr:?}");
    assert!(!stderr.contains('\x1b'), "{stderr:?}");
}

#[test]
fn artifacts_of_failed_program_are_exported() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo partial > /output/log; sleep 100";
    let arguments = [
        "run",
        "--out",
        "out",
        "--timeout",
        "1s",
        "--",
        "/bin/sh",
        "-c",
        script,
    ];
    let output = run_in(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(124), "{}", text(&output.stderr));
    assert_eq!(
        std::fs::read_to_string(folder.path().join("out/log")).unwrap(),
        "partial\n"
    );
}

#[test]
fn json_lists_exported_and_skipped_artifacts() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let script = "printf 'a,b\\n' > /output/t.csv";
    let (code, result) = run_json(&[
        "run",
        "--out",
        out.to_str().unwrap(),
        "--artifact",
        "/output/t.csv",
        "--artifact",
        "/output/none",
        "--",
        "/bin/sh",
        "-c",
        script,
    ]);
    assert_eq!(code, Some(0), "{result}");
    let artifact = &result["artifacts"][0];
    assert_eq!(artifact["source"], "/output/t.csv");
    assert_eq!(artifact["size_bytes"], 4);
    assert_eq!(artifact["content_type"], "text/csv");
    assert_eq!(artifact["blake3"].as_str().unwrap().len(), 64);
    assert!(Path::new(artifact["path"].as_str().unwrap()).exists());
    let skipped = serde_json::json!([{"source": "/output/none", "reason": {"kind": "missing"}}]);
    assert_eq!(result["skipped_artifacts"], skipped);
}

/// Code of one run plants links where the next run, under another policy, writes or reads.
#[test]
fn output_folder_replaced_by_link_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (proj, victim) = (folder.path().join("proj"), folder.path().join("victim"));
    for folder in [&proj, &victim] {
        std::fs::create_dir(folder).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder, mode).unwrap();
    }
    std::fs::write(
        victim.join("policy.toml"),
        "version = 1\nallow_partial = ['disk']\n",
    )
    .unwrap();
    std::fs::create_dir(proj.join("results")).unwrap();
    let plant = "ln -s ../victim artifacts; mv results old; ln -s ../victim results; \
                 ln -s old inner; ln -s ../victim/policy.toml policy.toml";
    let planted = ["run", "-q", "--workspace", ".", "--allow-partial", "disk"];
    let planted = [&planted[..], &["--", "sh", "-c", plant]].concat();
    let output = run_in(&proj, &planted);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(proj.join("artifacts").is_symlink());

    let write = ["--", "sh", "-c", "echo evil > /output/evil.desktop"];
    let elsewhere = ["run", "--artifact", "/output/evil.desktop"];
    let out = |out: &'static str| [&["run", "--out", out][..], &write].concat();
    let default = [&elsewhere[..], &write].concat();
    for arguments in [
        default,
        out("results"),
        out("results/new"),
        out("inner/new"),
        [&["run", "--follow", "--out", "results"][..], &write].concat(),
    ] {
        let output = run_in(&proj, &arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {stderr}");
        assert!(
            stderr.contains("on the way to an output folder"),
            "{stderr}"
        );
        assert!(stderr.contains("instead"), "{stderr}");
    }
    assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 1);
    assert!(!proj.join("old/new").exists());

    let policy = ["run", "--policy", "policy.toml", "--", "true"];
    let output = run_in(&proj, &policy);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(
        stderr.contains("outside of the folder that it stands in"),
        "{stderr}"
    );
    let followed = [&["run", "--follow"][..], &policy[1..]].concat();
    assert!(run_in(&proj, &followed).status.success());
    let around = [&followed[..4], &["--workspace", ".", "--", "true"]].concat();
    let stderr = text(&run_in(&proj, &around).stderr);
    assert!(
        stderr.contains("in a folder that the code can write to"),
        "{stderr}"
    );
}

#[test]
fn page_shows_artifacts_and_replaces_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "mkdir -p /output; printf '<script>1</script>' >/output/a.html; echo x,y >/output/b.csv";
    let arguments = [
        "run",
        "--artifacts-html",
        "pages/all.html",
        "--",
        "sh",
        "-c",
        script,
    ];
    let output = run_in(folder.path(), &arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = folder.path().join("pages/all.html");
    let written = std::fs::read_to_string(&page).unwrap();
    assert!(written.contains("<h2>/output/a.html</h2>"), "{written}");
    assert!(written.contains("srcdoc=\"&lt;script&gt;1"), "{written}");
    assert!(!written.contains("<script"), "{written}");
    assert!(written.contains("x,y"), "{written}");
    assert!(folder.path().join("artifacts/a.html").exists());
    // It is a new file, never another one.
    let output = run_in(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(125), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(&page).unwrap(), written);
    std::fs::remove_file(&page).unwrap();
    std::os::unix::fs::symlink("/nowhere/file", &page).unwrap();
    let output = run_in(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(125), "{}", text(&output.stderr));
    // Without a run there is no page.
    let missing = [
        "run",
        "--artifacts-html",
        "none.html",
        "--",
        "/no/such/program",
    ];
    assert!(!run_in(folder.path(), &missing).status.success());
    assert!(!folder.path().join("none.html").exists());
}
