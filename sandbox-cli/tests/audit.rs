//! `--audit`.
#![cfg(feature = "local")]

mod common;

use common::run_text;
use serde_json::Value;

#[test]
fn events_are_appended_as_lines_with_labels() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let path = file.to_str().unwrap();
    for _ in 0..2 {
        let arguments = ["run", "--audit", path, "--label", "team=graders"];
        let program = ["--", "sh", "-c", "exit 3"];
        let (code, stdout, stderr) = run_text([&arguments[..], &program].concat());
        assert_eq!(code, Some(3), "{stdout}{stderr}");
    }
    let text = std::fs::read_to_string(&file).unwrap();
    let lines = text.lines().map(serde_json::from_str);
    let lines = lines.collect::<Result<Vec<Value>, _>>().unwrap();
    assert!(lines.iter().all(|line| line["labels"]["team"] == "graders"));
    let events = lines.iter().map(|line| line["event"].as_str().unwrap());
    let once = [
        "admitted",
        "created",
        "exec_started",
        "exec_ended",
        "removed",
    ];
    assert_eq!(events.collect::<Vec<_>>(), [once, once].concat(), "{text}");
    assert_eq!(lines[3]["outcome"]["code"], 3, "{text}");
}

#[test]
fn commands_on_a_detached_sandbox_record_what_they_do() {
    let name = format!("audit-{}", common::unique_seconds().replace('.', "-"));
    let run = |arguments: &[&str]| {
        let (code, stdout, stderr) = run_text(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {stdout}{stderr}");
    };
    run(&[
        "create",
        "-q",
        "--ttl",
        "2m",
        "--label",
        "team=graders",
        "--name",
        &name,
    ]);
    let folder = tempfile::tempdir().unwrap();
    let (file, copied) = (folder.path().join("audit.jsonl"), folder.path().join("x"));
    let (file, copied) = (file.to_str().unwrap(), copied.to_str().unwrap());
    run(&["exec", "--audit", file, &name, "--", "touch", "/tmp/x"]);
    run(&["cp", "--audit", file, &format!("{name}:/tmp/x"), copied]);
    run(&["rm", &name]);
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().map(serde_json::from_str);
    let lines = lines.collect::<Result<Vec<Value>, _>>().unwrap();
    assert!(lines.iter().all(|line| line["labels"]["team"] == "graders"));
    let events = lines.iter().map(|line| line["event"].as_str().unwrap());
    let expected = [
        "attached",
        "exec_started",
        "exec_ended",
        "attached",
        "files",
    ];
    assert_eq!(events.collect::<Vec<_>>(), expected, "{text}");
    let copy = &lines[4];
    assert_eq!(copy["operation"], "copy_out", "{text}");
    assert_eq!(copy["paths"][0], "/tmp/x", "{text}");
    assert_eq!(copy["host"], copied, "{text}");
}

#[test]
fn full_disk_is_told_and_stops_nothing() {
    let run = |file: &str| run_text(["run", "-q", "--audit", file, "--", "echo", "ran"]);
    let (code, stdout, stderr) = run("/dev/full");
    assert_eq!((code, stdout.as_str()), (Some(0), "ran\n"), "{stderr}");
    assert!(
        stderr.contains("/dev/full: 5 audit records are lost: No space left"),
        "{stderr}"
    );
    let (code, stdout, stderr) = run("/nonexistent/audit");
    assert_eq!((code, stdout.as_str()), (Some(125), ""));
    assert!(stderr.contains("--audit: /nonexistent/audit"), "{stderr}");
}

#[test]
fn refusal_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let arguments = ["run", "--audit", file.to_str().unwrap()];
    let (code, ..) = run_text([&arguments[..], &["--image", "some", "--", "true"]].concat());
    assert_eq!(code, Some(125));
    let text = std::fs::read_to_string(&file).unwrap();
    let record: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(record["event"], "not_created", "{text}");
}
