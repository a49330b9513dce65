//! Input that is meant to break the scan: it answers, in bounded time, with places in the text.

use proptest::prelude::*;
use sandbox_lang::scan::{
    MAX_CODE, MAX_VIOLATIONS, Pattern, Preset, ScanPolicy, ScanReport, rules,
};

/// The languages to scan.
const LANGUAGES: &[&str] = &[
    "python",
    "javascript",
    "typescript",
    "java",
    "c",
    "cpp",
    "go",
    "rust",
    "ruby",
    "r",
    "sh",
    "bash",
];

fn strict() -> ScanPolicy {
    let pattern = Pattern::new("own", "(?s)a.*b").expect("valid");
    Preset::Strict.policy().restrict("os").pattern(pattern)
}

fn scan(language: &str, code: impl AsRef<[u8]>) -> ScanReport {
    let report = strict().scan(language, &code).expect("a language");
    assert_in_text(&report, code.as_ref());
    report
}

/// Asserts that each violation lies in the text.
fn assert_in_text(report: &ScanReport, code: &[u8]) {
    let lines: Vec<&[u8]> = code.split(|byte| *byte == b'\n').collect();
    let is_in = |line: usize, column: usize| {
        let text = line.checked_sub(1).and_then(|line| lines.get(line));
        column >= 1 && text.is_some_and(|text| column <= text.len() + 1)
    };
    for one in &report.violations {
        assert!(is_in(one.line, one.column), "{one:?}");
        assert!(is_in(one.end_line, one.end_column), "{one:?}");
        assert!(
            (one.line, one.column) <= (one.end_line, one.end_column),
            "{one:?}"
        );
    }
    assert!(report.violations.len() <= MAX_VIOLATIONS);
}

fn has(report: &ScanReport, rule: &str) -> bool {
    report.violations.iter().any(|one| one.rule == rule)
}

#[test]
fn empty_input_is_clean() {
    for language in LANGUAGES {
        assert!(scan(language, "").is_safe(), "{language}");
        assert!(scan(language, "\n\n").is_safe(), "{language}");
    }
}

#[test]
fn bytes_that_are_no_text_are_unsafe() {
    for language in LANGUAGES {
        for code in [&b"x\xff"[..], b"\xff\xfe", b"a = 1\0", b"\0", b"\xc3"] {
            assert!(
                has(&scan(language, code), rules::UNREADABLE),
                "{language} {code:?}"
            );
        }
    }
}

#[test]
fn ten_megabytes_are_refused_at_once() {
    for language in LANGUAGES {
        let report = scan(language, "x = 1\n".repeat(10 << 20 >> 2));
        assert!(has(&report, rules::UNFINISHED), "{language}");
        assert!(!report.is_safe());
    }
}

#[test]
fn code_of_the_largest_size_is_scanned() {
    for (language, line) in [("python", "a.b(c, 1)\n"), ("javascript", "a.b(c, 1);\n")] {
        let report = scan(language, line.repeat(MAX_CODE / line.len()));
        let is_large = |text: &str| text.contains("larger than");
        let all = &report.violations;
        assert!(
            !all.iter().any(|one| is_large(&one.description)),
            "{language}"
        );
    }
}

#[test]
fn deep_nesting_does_not_exhaust_the_stack() {
    for language in LANGUAGES {
        for (open, close) in [("(", ")"), ("[", "]"), ("f(", ")"), ("{", "}"), ("$(", ")")] {
            let depth = 2_000;
            scan(
                language,
                format!("{}{}", open.repeat(depth), close.repeat(depth)),
            );
        }
    }
    for (open, close) in [("(", ")"), ("[", "]"), ("f(", ")"), ("{1:", "}")] {
        let depth = 10_000;
        let nested = format!("x = {}1{}", open.repeat(depth), close.repeat(depth));
        scan("python", nested);
    }
}

#[test]
fn unfinished_nesting_is_answered() {
    for language in LANGUAGES {
        for part in [
            "(", "[", "{", "((", "f(", "a.", "a[", "-", "!", "not ", "lambda:", "x=", "'+", "`",
            "if x:\n ", "$(", "\"${", "{x:", "<", "</", "\\", "<<A\n",
        ] {
            scan(language, part.repeat(1_000 / part.len()));
        }
    }
}

#[test]
fn characters_beyond_the_tables_of_the_c_library_are_scanned() {
    for language in LANGUAGES {
        for before in [
            "", "{", "{1", "{1..", "$", "${", "<<", "\\", "'", "%", "#", "\n",
        ] {
            for character in [
                '\u{85}',
                '\u{ff}',
                '\u{100}',
                '\u{ffff}',
                '\u{1f600}',
                char::MAX,
            ] {
                scan(language, format!("{before}{character}"));
                scan(language, format!("a {before}{character}}}\n"));
            }
        }
    }
}

#[test]
fn many_violations_are_counted_and_the_gravest_kept() {
    let code = "open('x')\n".repeat(5000) + "import os\n";
    let report = scan("python", &code);
    assert_eq!(report.violations.len(), MAX_VIOLATIONS);
    assert!(has(&report, rules::RESTRICTED_MODULE));
    assert_eq!(report.omitted, 4001);
}

#[test]
fn long_chains_take_linear_time() {
    scan("python", format!("x = a{}", ".b".repeat(20_000)));
    scan("python", format!("x = a{}", ".b()".repeat(20_000)));
    scan("python", format!("x = {}1", "'a' + ".repeat(20_000)));
    scan("python", "x = x.a\n".repeat(10_000));
    scan("python", format!("import {}a", "a, ".repeat(20_000)));
    scan("python", format!("from a import {}a", "a, ".repeat(20_000)));
    scan("python", "from a import *\n".repeat(10_000));
}

#[test]
fn long_names_are_not_multiplied() {
    let name = "n".repeat(100_000);
    let many = "a, ".repeat(20_000);
    scan("python", format!("from {name} import {many}a"));
    scan(
        "python",
        format!("import {name} as b\n{}", "b.c\n".repeat(20_000)),
    );
    scan("rust", format!("use {name}::{{{many}a}};"));
    scan("javascript", format!("import {{{many}a}} from '{name}'"));
    scan(
        "java",
        format!("class A {{ Object a = java{}; }}", ".b".repeat(20_000)),
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_scanned(code in proptest::collection::vec(any::<u8>(), 0..300), at in 0..LANGUAGES.len()) {
        scan(LANGUAGES[at], code);
    }

    #[test]
    fn any_text_is_scanned(code in "\\PC{0,200}", at in 0..LANGUAGES.len()) {
        scan(LANGUAGES[at], code);
    }

    #[test]
    fn any_tokens_are_scanned(
        tokens in proptest::collection::vec(
            proptest::sample::select(vec![
                "import", "os", "from", ".", "(", ")", "'", "\"", "\\", "\n", "  ", "=", "*", ":",
                "__import__", "require", "exec", "{", "}", "[", "]", "é", "𝘰𝘴", "#", "//", "/*",
                "$(", "`", "u{", "\\x", "\\u", "as", ",", "+", "eval", "::", "<", ">", ";", "def",
            ]),
            0..60,
        ),
        at in 0..LANGUAGES.len(),
    ) {
        scan(LANGUAGES[at], tokens.concat());
        scan(LANGUAGES[at], tokens.join(" "));
    }
}
