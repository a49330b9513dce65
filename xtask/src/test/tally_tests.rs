//! Tests of the counting: nothing that did not run or died may pass for a success.

use super::{Reader, Tally};

fn read(text: &str) -> (Tally, Vec<String>) {
    let mut reader = Reader::new("root", "one");
    let shown = text
        .lines()
        .filter(|line| reader.line(line))
        .map(str::to_owned)
        .collect();
    (reader.finish(), shown)
}

const OK: &str =
    "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s";

#[test]
fn results_of_binaries_are_summed_with_their_names() {
    let text = format!(
        "     Running unittests src/lib.rs (target/debug/deps/sandbox_core-0a1b)\n\nrunning 4 tests\n{OK}\n\n\
         \x20    Running tests/docker.rs (target/debug/deps/docker-0a1b)\n\nrunning 3 tests\n\
         test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\
         \x20  Doc-tests sandbox\nrunning 4 tests\n{OK}\n"
    );
    let (tally, _) = read(&text);
    assert_eq!((tally.passed, tally.failed, tally.skipped), (7, 2, 2));
    assert_eq!(tally.to_string(), "7 passed, 2 failed, 2 skipped");
    let ends: Vec<_> = tally
        .results
        .iter()
        .filter_map(|line| line.rsplit_once(" [").map(|(_, end)| end))
        .collect();
    assert_eq!(
        ends,
        [
            "root: sandbox_core]",
            "root: docker]",
            "root: Doc-tests sandbox]"
        ]
    );
}

#[test]
fn a_test_that_could_not_run_is_not_a_passed_one() {
    let text = format!(
        "running 4 tests\ntest a ... ok\n\nsuccesses:\n\n---- a stdout ----\nNOT RUN: landlock: kernel too old\n\
         NOT RUN: landlock: second line of the same test\n\n---- b stdout ----\nplain\n\nsuccesses:\n    a\n    b\n\n{OK}\n"
    );
    let (tally, shown) = read(&text);
    assert_eq!((tally.passed, tally.failed, tally.skipped), (2, 0, 2));
    assert_eq!(tally.not_run.len(), 2);
    assert!(tally.not_run.contains("landlock: kernel too old"));
    assert!(
        shown.iter().any(|line| line.starts_with("NOT RUN: ")),
        "{shown:?}"
    );
    assert!(!shown.iter().any(|line| line == "plain"), "{shown:?}");
}

#[test]
fn a_binary_that_dies_is_a_failure() {
    let (tally, _) = read("running 4 tests\ntest a ... ok\n");
    assert_eq!((tally.passed, tally.failed), (0, 1));
    let text = format!(
        "running 4 tests\n     Running tests/b.rs (target/debug/deps/b-0a1b)\nrunning 4 tests\n{OK}\n"
    );
    let (tally, _) = read(&text);
    assert_eq!((tally.passed, tally.failed), (3, 1));
}

#[test]
fn failures_are_shown_after_quiet_successes() {
    let text = "running 2 tests\ntest a ... ok\ntest b ... FAILED\nsuccesses:\n---- a stdout ----\nnoise\nfailures:\n---- b stdout ----\nwhy\n\
        test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n";
    let (tally, shown) = read(text);
    assert_eq!((tally.passed, tally.failed), (1, 1));
    assert_eq!(tally.failures, ["b [root: one]"]);
    assert!(shown.iter().any(|line| line == "why"));
    assert!(!shown.iter().any(|line| line == "noise"));
    assert_eq!(tally.reports, [["b [root: one]", "why"]]);
}

#[test]
fn a_test_that_writes_past_its_harness_is_named_with_what_it_said() {
    let text = "running 3 tests\ntest [x] a ... a word\nFAILED\ntest [x] b ... FAILED\ntest [x] c ... ok\n\nfailures:\n\n---- a ----\n\
        1\n\n---- b ----\n2\n3\n\nfailures:\n    a\n    b\n\n\
        test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n";
    let (tally, _) = read(text);
    assert_eq!((tally.passed, tally.failed), (1, 2));
    assert_eq!(tally.failures, ["[x] b [root: one]", "a [root: one]"]);
    let reports = [vec!["a [root: one]", "1"], vec!["b [root: one]", "2", "3"]];
    assert_eq!(tally.reports, reports);
    let (tally, _) = read(&text.replace("\n2\n3\n", &"\nagain".repeat(100)));
    assert_eq!(tally.reports[1].len(), 41);
    assert_eq!(tally.reports[1][40], "…");
}

#[test]
fn what_is_no_result_line_counts_nothing() {
    let text = format!(
        "{OK}\nrunning 1 test\ntest result: ok. many passed; 0 failed; 0 ignored;\ntest result: ok. 1 passed; 0 failed; 0 ignored; \
         0 measured; 0 filtered out\n"
    );
    let (tally, _) = read(&text);
    assert_eq!((tally.passed, tally.failed, tally.skipped), (1, 0, 0));
}

#[test]
fn the_run_within_a_test_is_not_the_result() {
    let text = format!(
        "running 4 tests\nsuccesses:\n\n---- a stdout ----\nrunning 9 tests\n\
         test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 8 filtered out; finished in 0.1s\n\n{OK}\n"
    );
    let (tally, _) = read(&text);
    assert_eq!((tally.passed, tally.failed, tally.skipped), (3, 0, 1));
    let (tally, _) = read(
        &OK.replace("test result", "running 4 tests\ntest result")
            .replace("0 filtered", "2 filtered"),
    );
    assert_eq!(
        (tally.passed, tally.skipped),
        (3, 3),
        "left out is not passed"
    );
}
