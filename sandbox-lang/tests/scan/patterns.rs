//! Patterns of the user.

use sandbox_core::ErrorKind;
use sandbox_lang::scan::{Pattern, ScanPolicy};

fn lines(regex: &str, code: &str) -> Vec<usize> {
    let pattern = Pattern::new("own", regex).expect("valid");
    let report = ScanPolicy::new().pattern(pattern).scan("python", code);
    let violations = report.expect("a language").violations;
    let own = violations.iter().filter(|one| one.rule == "own");
    own.map(|one| one.line).collect()
}

#[test]
fn pattern_matches_code_and_not_text() {
    assert_eq!(lines("import os", "import os\n"), [1]);
    assert_eq!(lines("import os", "# import os\nx = 'import os'\n"), [0; 0]);
    assert_eq!(lines("import os", "'''\nimport os\n'''\nimport os"), [4]);
    assert_eq!(lines("f\\('x'\\)", "f('x')\n"), [1]);
}

#[test]
fn pattern_matches_calls_as_the_language_sees_them() {
    let regex = r"requests\.get\(.*internal\.company";
    for code in [
        "requests.get('http://internal.company')",
        "requests . get ( 'http://internal.company' )",
        "import requests as r\nr.get('http://internal.company')",
        "from requests import get\nget(\n 'http://internal.company')",
    ] {
        assert_eq!(lines(regex, code).len(), 1, "{code}");
    }
    assert_eq!(lines(regex, "requests.get('http://example.com')"), [0; 0]);
}

#[test]
fn every_match_is_reported() {
    assert_eq!(lines("x", "x\ny\nx\n"), [1, 3]);
    assert_eq!(lines("", "x\ny\n"), [0; 0]);
    assert_eq!(lines("^", "x\ny\n"), [0; 0]);
}

#[test]
fn invalid_pattern_is_an_error_in_one_line() {
    for (id, regex) in [
        ("own", "("),
        ("own", "(?=x)"),
        ("own", "(x{1000}){1000}"),
        ("", "x"),
        ("a b", "x"),
    ] {
        let error = Pattern::new(id, regex).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{regex}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}
