//! `sandbox scan`, and `sandbox run` with a scan.

mod common;

use common::{run_json, run_text, sandbox, text};
use serde_json::Value;

/// A folder with a program of this text.
fn program(name: &str, code: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, code).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn each_violation_is_a_line_with_its_place() {
    let (_folder, file) = program("a.py", "import sys,os\n\nos.system('ls')\n");
    let (code, stdout, stderr) = run_text(["scan", "--restrict", "os", &file]);
    let expected = format!(
        "{file}:1:12: high: loads the restricted module `os` [restricted-module]\n\
         {file}:3:1: high: `os.system` starts, replaces or signals processes [process]\n"
    );
    assert_eq!((code, stdout), (Some(1), expected));
    assert_eq!(
        stderr,
        "sandbox: scan: 2 violations, 2 of them at least medium; a scan is advisory and isolates nothing\n"
    );
}

#[test]
fn clean_code_ends_with_zero() {
    let (_folder, file) = program("a.py", "print('please import os now')\n");
    let (code, stdout, stderr) = run_text(["scan", "--restrict", "os", &file]);
    assert_eq!((code, stdout.as_str()), (Some(0), ""), "{stderr}");
}

#[test]
fn threshold_decides_the_exit_code() {
    let (_folder, file) = program("a.py", "print(open('x').read())\n");
    let code = |threshold| run_text(["scan", "--threshold", threshold, &file]).0;
    assert_eq!(code("low"), Some(1));
    assert_eq!(code("medium"), Some(0));
    assert_eq!(
        run_text(["scan", "--scan-preset", "strict", &file]).0,
        Some(1)
    );
}

#[test]
fn allowed_modules_are_the_only_ones() {
    let (_folder, file) = program("a.py", "import math, json\n");
    let code = |modules: &[&str]| {
        let allow = modules.iter().flat_map(|module| ["--allow", module]);
        run_text(["scan", &file].into_iter().chain(allow)).0
    };
    assert_eq!(code(&[]), Some(0));
    assert_eq!(code(&["math", "json"]), Some(0));
    assert_eq!(code(&["math"]), Some(1));
    assert_eq!(code(&[""]), Some(1));
}

#[test]
fn standard_input_is_scanned_as_the_named_language() {
    let scan = |arguments: &[&str]| {
        let mut command = sandbox(arguments);
        let output = command.write_stdin("import subprocess\n").output().unwrap();
        (output.status.code(), text(&output.stdout))
    };
    let (code, stdout) = scan(&["scan", "-"]);
    assert_eq!(code, Some(1));
    assert!(stdout.starts_with("-:1:8: high: "), "{stdout}");
    assert_eq!(scan(&["scan", "--lang", "py", "-"]), (code, stdout));
}

#[test]
fn patterns_of_the_user_are_numbered() {
    let (_folder, file) = program("a.py", "from a import b as c\nc ( 1)\n");
    let arguments = ["scan", "--pattern", "x", "--pattern", r"a\.b\( ?1\)", &file];
    let (code, stdout, _) = run_text(arguments);
    assert_eq!(code, Some(1));
    assert!(stdout.contains(":2:1: high: "), "{stdout}");
    assert!(stdout.contains("[pattern-2]"), "{stdout}");
}

#[test]
fn json_has_all_violations() {
    let (_folder, file) = program("a.py", "import pickle\nx = (\n");
    let (code, document) = run_json(&["scan", &file]);
    assert_eq!(code, Some(1));
    assert_eq!(document["safe"], false);
    let report = &document["files"][0];
    assert_eq!(report["file"], file);
    assert_eq!(report["language"], "python");
    assert_eq!(report["threshold"], "medium");
    assert_eq!(report["omitted"], 0);
    let violations = report["violations"].as_array().unwrap();
    let rules = violations.iter().map(|one| one["rule"].as_str().unwrap());
    assert_eq!(
        rules.collect::<Vec<_>>(),
        ["deserialization", "syntax-error"]
    );
    assert_eq!(violations[0]["line"], 1);
    assert_eq!(violations[0]["column"], 8);
    assert_eq!(violations[1]["line"], 2);
}

#[test]
fn sarif_log_has_the_required_members() {
    let (_folder, file) = program("a b.py", "import os\nimport pickle\nimport pickle\n");
    let output = sandbox(["scan", "-o", "sarif", "--restrict", "os", &file])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let log: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(log["version"], "2.1.0");
    let runs = log["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1);
    let driver = &runs[0]["tool"]["driver"];
    assert_eq!(driver["name"], "sandbox-scan");
    let rules = driver["rules"].as_array().unwrap();
    let results = runs[0]["results"].as_array().unwrap();
    assert_eq!((rules.len(), results.len()), (2, 3));
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert!(rules[index]["shortDescription"]["text"].is_string());
        assert!(["note", "warning", "error"].contains(&result["level"].as_str().unwrap()));
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        let place = &result["locations"][0]["physicalLocation"];
        let uri = place["artifactLocation"]["uri"].as_str().unwrap();
        assert!(uri.ends_with("/a%20b.py"), "{uri}");
        let region = &place["region"];
        let number = |name: &str| region[name].as_u64().unwrap();
        assert!(number("startLine") >= 1 && number("startColumn") >= 1);
        assert!(number("endLine") >= number("startLine"));
    }
    assert_eq!(runs[0]["columnKind"], "unicodeCodePoints");
}

#[test]
fn bad_input_is_one_line_and_no_result() {
    let (folder, file) = program("notes.txt", "import os");
    let missing = folder.path().join("missing.py");
    let folder = folder.path().to_str().unwrap();
    for arguments in [
        &["scan"][..],
        &["scan", &file],
        &["scan", missing.to_str().unwrap()],
        &["scan", "-l", "py", folder],
        &["scan", "-l", "cobol", &file],
        &["scan", "-l", "py", "--pattern", "(", &file],
        &["scan", "-l", "py", "--scan-preset", "x", &file],
        &["scan", "-l", "py", "--threshold", "safe", &file],
    ] {
        let (code, stdout, stderr) = run_text(arguments);
        assert_eq!(
            (code, stdout.as_str()),
            (Some(125), ""),
            "{arguments:?} {stderr}"
        );
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        let (code, document) = run_json(arguments);
        assert_eq!(code, Some(125));
        assert!(document["error"]["message"].is_string(), "{document}");
    }
}

#[test]
fn missing_file_is_told_before_its_language() {
    let (_folder, file) = program("notes", "");
    let (_, _, stderr) = run_text(["scan", &format!("{file}-missing")]);
    assert!(stderr.contains("No such file"), "{stderr}");
    let (_, _, stderr) = run_text(["scan", &file]);
    assert!(stderr.contains("no known language"), "{stderr}");
}

#[test]
fn invalid_and_large_code_is_unsafe() {
    for (name, code) in [
        ("a.py", b"x = 1\0".to_vec()),
        ("b.py", b"\xff".to_vec()),
        ("c.py", b"x = 1\n".repeat(2 << 20)),
    ] {
        let (_folder, file) = program(name, "");
        std::fs::write(&file, code).unwrap();
        let (code, stdout, _) = run_text(["scan", "--threshold", "high", &file]);
        assert_eq!(code, Some(1), "{name} {stdout}");
    }
    let (_folder, empty) = program("d.py", "");
    assert_eq!(
        run_text(["scan", "--scan-preset", "strict", &empty]).0,
        Some(0)
    );
}

#[cfg(feature = "local")]
mod with_a_sandbox {
    use super::*;

    #[test]
    fn code_that_fails_the_scan_is_not_run() {
        let (folder, file) = program("a.py", "import subprocess\nprint('ran')\n");
        let out = folder.path().join("results");
        let arguments = [
            "run",
            "--out",
            out.to_str().unwrap(),
            "--scan-preset",
            "minimal",
            &file,
        ];
        let (code, stdout, stderr) = run_text(arguments);
        assert_eq!((code, stdout.as_str()), (Some(125), ""), "{stderr}");
        let place = format!("{file}:1:8: high: `subprocess` starts");
        assert!(stderr.contains(&place), "{stderr}");
        assert!(!out.exists(), "nothing is created");
        let (code, document) = run_json(&["run", "--scan-restrict", "os", "-c", "import os"]);
        assert_eq!(code, Some(125));
        assert_eq!(document["error"]["kind"], "code_refused");
    }

    #[test]
    fn code_that_passes_the_scan_is_run() {
        let (_folder, file) = program("a.py", "print(6 * 7)\n");
        let (code, stdout, stderr) = run_text(["run", "-q", "--scan-preset", "strict", &file]);
        assert_eq!((code, stdout.as_str()), (Some(0), "42\n"), "{stderr}");
        let code = "import math; print(math.floor(1.5))";
        let arguments = ["run", "-q", "--scan-allow", "math", "-c", code];
        assert_eq!(run_text(arguments).1, "1\n");
    }

    #[test]
    fn program_that_was_scanned_runs_without_its_unscanned_modules() {
        let (folder, file) = program("a.py", "import helper\n");
        std::fs::write(folder.path().join("helper.py"), "print('ran')\n").unwrap();
        let (code, stdout, _) = run_text(["run", "-q", "--scan-preset", "minimal", &file]);
        assert_eq!((code, stdout.as_str()), (Some(1), ""));
    }

    #[test]
    fn scan_of_a_command_is_refused() {
        let (code, _, stderr) = run_text(["run", "--scan-preset", "minimal", "--", "true"]);
        assert_eq!(code, Some(125));
        assert!(stderr.contains("a scan needs FILE or -c CODE"), "{stderr}");
    }
}
