//! Options as people know them from `docker run`.
#![cfg(feature = "local")]

mod common;

use common::{run_json, run_text, unique_seconds};

fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

#[test]
fn memory_is_read_as_docker_reads_it() {
    for text in ["96m", "96MB", "96MiB", "100663296"] {
        let (code, report) = run_json(&["check", "-m", text]);
        assert!(matches!(code, Some(0 | 3)), "{report}");
        let text = report.to_string();
        assert!(text.contains("96MiB"), "{text}");
    }
}

#[test]
fn short_options_and_env_file_reach_the_program() {
    let folder = folder_with(&[("env", "# a comment\nA=file\nB=file\n")]);
    let file = folder.path().join("env");
    let script = "echo $A $B; pwd";
    let file = file.to_str().unwrap();
    let arguments = [
        "run",
        "-q",
        "--env-file",
        file,
        "-e",
        "B=option",
        "-w",
        "/tmp",
    ];
    let arguments = [
        &arguments[..],
        &["--label", "team=a", "-l", "shell", "-c", script],
    ]
    .concat();
    let (code, stdout, stderr) = run_text(arguments);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(stdout, "file option\n/tmp\n");
}

#[test]
fn bad_env_file_is_refused_with_its_line() {
    let folder = folder_with(&[("env", "A=1\nHOME\n")]);
    let file = folder.path().join("env");
    let file = file.to_str().unwrap();
    let (code, _, stderr) = run_text(["run", "--env-file", file, "-c", "1"]);
    assert_eq!(code, Some(125));
    assert!(stderr.contains("line 2: \"HOME\""), "{stderr}");
}

#[test]
fn artifacts_of_a_detached_sandbox_are_exported() {
    let name = format!("export-{}", unique_seconds().replace('.', "-"));
    let folder = folder_with(&[]);
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    let options = ["--ttl", "2m", "--artifact", "/output/*.txt"];
    let create = [&["create", "-q", "--name", &name][..], &options].concat();
    assert_eq!(run_text(create).0, Some(0));
    let write = "echo one > /output/a.txt; echo two > /output/b.log";
    assert_eq!(
        run_text(["exec", &name, "--", "sh", "-c", write]).0,
        Some(0)
    );
    let (code, document) = run_json(&["export", &name, "--out", out]);
    assert_eq!(code, Some(0), "{document}");
    assert_eq!(document["artifacts"].as_array().map(Vec::len), Some(1));
    let copied = std::fs::read_to_string(folder.path().join("out/a.txt"));
    assert_eq!(copied.unwrap(), "one\n");
    assert!(!folder.path().join("out/b.log").exists());
    assert_eq!(run_text(["rm", &name]).0, Some(0));
}

#[test]
fn sandbox_without_artifacts_exports_nothing() {
    let name = format!("export-none-{}", unique_seconds().replace('.', "-"));
    assert_eq!(
        run_text(["create", "-q", "--name", &name, "--ttl", "2m"]).0,
        Some(0)
    );
    let (code, _, stderr) = run_text(["export", &name]);
    assert_eq!(code, Some(125));
    assert!(stderr.contains("exports nothing"), "{stderr}");
    assert_eq!(run_text(["rm", &name]).0, Some(0));
}
