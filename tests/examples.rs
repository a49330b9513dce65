//! The examples print what their descriptions say. Cargo builds them with the tests.
#![cfg(feature = "local")]

use std::path::PathBuf;
use std::process::Command;

/// What an example prints.
fn output_of(example: &str) -> String {
    output_with(example, |_| {})
}

/// What an example prints, with arguments and variables.
fn output_with(example: &str, adapt: impl FnOnce(&mut Command)) -> String {
    let own = std::env::current_exe().expect("this program");
    // `target/debug/deps/examples-…` is this program.
    let folder = own.ancestors().nth(2).expect("the folder of the profile");
    let program: PathBuf = folder.join("examples").join(example);
    let mut command = Command::new(&program);
    adapt(&mut command);
    let output = command.output();
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
fn sessions_keep_their_state_and_branch() {
    let text = output_of("sessions");
    let expected = "2 sessions are ready\n3.3333333333333335\n\
                    timed out; its variables are kept\n[2, 3, 5]\n2.75\n2.5\n";
    assert_eq!(text, expected);
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

#[test]
fn each_language_answers_its_question_or_is_not_here() {
    let text = output_of("languages");
    let answers = [
        "python: revenue: {\"pen\": 22.5, \"book\": 24.0, \"lamp\": 30.0}",
        "javascript: largest order: lamp 1 30.00",
        "typescript: orders of one piece: 1",
        "java: pens: 15",
        "c: lines: 4, bytes: 49",
        "cpp: items: book lamp pen",
        "go: largest quantity: 10",
        "rust: average price: 11.25",
        "ruby: quantities: pen 15, book 2, lamp 1",
        "r: median price: 6.75 ",
        "sh: most frequent: pen",
        "bash: repeated: pen",
    ];
    for (line, answer) in text.lines().zip(answers) {
        let (language, _) = answer.split_once(':').expect("a language");
        let is_missing = line.starts_with(&format!("{language}: not here (use an image"));
        let always = ["python", "sh"].contains(&language);
        assert!(line == answer || (is_missing && !always), "{line}");
    }
    assert_eq!(text.lines().count(), answers.len(), "{text}");
}

#[cfg(feature = "scan")]
#[test]
fn translated_examples_do_what_the_originals_do() {
    let folder = sandbox_testing::users::open_folder();
    // The installing sandbox sees this folder, and no cache in it.
    let wheels = folder.path().join("wheels");
    std::fs::create_dir(&wheels).expect("a folder");
    sandbox_testing::package_index::wheel(&wheels, "demo", "1.2", 0);
    let text = output_with("translated", |command| {
        for name in ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"] {
            command.env_remove(name);
        }
        command
            .arg("demo")
            .env("XDG_CACHE_HOME", folder.path().join("cache"))
            .env("PIP_CONFIG_FILE", "/dev/null")
            .env("PIP_NO_INDEX", "1")
            .env("PIP_FIND_LINKS", &wheels);
    });
    let lines = text.lines().collect::<Vec<_>>();
    let expected = [
        "success: true",
        "/output/result.txt: hello from the sandbox",
        "sum of the cells: 10",
        "timed out: true, after it started",
        "the next run has its own limit",
        "accepted: 45",
    ];
    assert_eq!(lines[..expected.len()], expected, "{text}");
    let rest = &lines[expected.len()..];
    assert!(
        rest[0].starts_with("refused: ") && rest[0].contains("internal"),
        "{text}"
    );
    assert_eq!(rest.last(), Some(&"installed: demo 1.2"), "{text}");
}
