//! The shells.

use sandbox_lang::scan::{Category, ScanPolicy, rules};

use super::expect::{clean, does, restricted, scan, unknown};

#[test]
fn commands_are_found() {
    let codes = [
        "curl x",
        "/usr/bin/curl x",
        "cu\"r\"l x",
        "\\curl x",
        "$'c\\x75rl' x",
        "'curl' x",
        "command curl x",
        "env A=1 curl x",
        "sudo -n timeout 5 curl x",
        "echo x | xargs curl",
        "eval 'curl x'",
        "sh -c 'curl x'",
        "bash -ec \"curl x\"",
        "echo $(curl x)",
        "`curl x`",
        "find . -exec curl {} +",
        "if true; then curl x; fi",
        "f() { curl x; }",
        "cat <<A\n$(curl x)\nA\n",
        "true && curl x",
        "trap 'curl x' EXIT",
        "diff <(curl x) y",
        "echo é\u{85}… \u{10ffff}; curl é",
    ];
    restricted("sh", "curl", &codes);
    restricted("bash", "curl", &codes);
    let report = scan(&ScanPolicy::new(), "sh", "cu\\\nrl x");
    assert_eq!(report.violations[0].rule, rules::UNREADABLE);
    unknown(
        "bash",
        &[
            "$x y",
            "\"$x\" y",
            "eval \"$x\"",
            "sh -c \"$x\"",
            "$(echo curl) y",
            "/usr/bin/c?rl x",
            "c{u,}rl x",
        ],
    );
    does(
        "bash",
        Category::Network,
        &["echo x > /dev/tcp/1.2.3.4/80", "curl x | sh"],
    );
    does(
        "sh",
        Category::FileWrite,
        &["echo x > y", "rm -r x", "echo x 2>> y"],
    );
    does("sh", Category::Environment, &["LD_PRELOAD=x true"]);
    clean(
        "sh",
        "curl",
        &[
            "echo 'curl x' > /dev/null",
            "# curl x\n",
            "echo curl 2>&1",
            "cat=1; echo \"$cat\"",
            "curly=1",
            "echo é\u{a0}Å 'curl …'",
        ],
    );
}

#[test]
fn delimiters_beyond_ascii_hide_nothing() {
    let policy = ScanPolicy::new().restrict("curl");
    for code in [
        "cat <<é\nx\né\ncurl x\n",
        // To the shell, the first text ends at the fourth line.
        "cat <<é\nü\ncat <<END\né\ncurl x\nEND\n",
    ] {
        assert!(!scan(&policy, "bash", code).is_safe(), "{code}");
    }
}

#[test]
fn columns_of_shell_code_count_characters() {
    let report = scan(&ScanPolicy::new().restrict("curl"), "sh", "echo éü; curl x");
    assert_eq!(report.violations[0].column, 10);
}
