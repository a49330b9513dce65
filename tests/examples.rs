//! The examples print what their descriptions say. Cargo builds them with the tests.
#![cfg(feature = "local")]

use std::path::PathBuf;
use std::process::Command;

/// What an example prints.
fn output_of(example: &str) -> String {
    let own = std::env::current_exe().expect("this program");
    // `target/debug/deps/examples-…` is this program.
    let folder = own.ancestors().nth(2).expect("the folder of the profile");
    let program: PathBuf = folder.join("examples").join(example);
    let output = Command::new(&program).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{example}: {text}{errors}");
    text.into_owned()
}

#[test]
fn grader_tells_verdicts_apart() {
    let text = output_of("grader");
    let lines = text.lines().collect::<Vec<_>>();
    assert_eq!(lines[0], "ada: accepted");
    assert_eq!(lines[1], "bob: wrong answer in case 2");
    assert_eq!(lines[2], "cy: time limit exceeded in case 1");
    assert!(lines[3].contains("ModuleNotFoundError"), "{text}");
    assert!(lines[4].starts_with("ed: "), "{text}");
    assert!(
        lines[4].contains("in case 1") && !lines[4].contains("root:"),
        "{text}"
    );
}

#[test]
fn agent_tool_keeps_files_and_tells_denials() {
    let text = output_of("agent_tool");
    assert!(text.contains("\n42\n"), "{text}");
    assert!(text.contains("[denied: network"), "{text}");
    assert!(text.contains("[4096 of 10001 bytes]"), "{text}");
}

#[test]
fn notebook_is_found_by_another_client() {
    let text = output_of("notebook");
    assert!(text.contains(", of ada\n1,2\n3,4\n"), "{text}");
    assert!(
        text.ends_with("/output/table.csv: 10 bytes, text/csv\n"),
        "{text}"
    );
}

#[test]
fn ci_runs_tests_and_publishes() {
    let text = output_of("ci");
    assert!(text.starts_with("tests: exited with code 0, "), "{text}");
    assert!(
        text.contains("published with a token of 10 bytes\n"),
        "{text}"
    );
    assert!(text.ends_with("/output/tests.txt: OK\n"), "{text}");
}
