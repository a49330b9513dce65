//! `sandbox run`: files that come out.

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
fn the_example_prints_its_result_and_leaves_its_artifact() {
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
    // Again: nothing is overwritten.
    assert!(run_in(folder.path(), &arguments).status.success());
    assert!(folder.path().join("artifacts/summary-1.json").exists());
}

#[test]
fn a_folder_alone_takes_what_is_in_output() {
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
        stderr.contains("no artifact /output/link: a symbolic link"),
        "{stderr}"
    );
}

#[test]
fn a_folder_in_which_nothing_came_out_is_not_left_behind() {
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
        text(&output.stderr).contains("no artifact /output/x: nothing is there"),
        "{}",
        text(&output.stderr)
    );
    assert!(!folder.path().join("artifacts").exists());
}

#[test]
fn names_from_the_sandbox_cannot_write_to_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let code = "open('/output/\\x1b[31mred\\n.txt', 'w').write('x')";
    let output = run_in(folder.path(), &["run", "--out", "out", "-c", code]);
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("\\u{1b}[31mred\\n.txt"), "{stderr:?}");
    assert!(!stderr.contains('\x1b'), "{stderr:?}");
}

#[test]
fn artifacts_of_a_program_that_failed_come_out_too() {
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
fn json_lists_what_came_out_and_what_did_not() {
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
