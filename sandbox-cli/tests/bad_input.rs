//! Invalid input is refused with one clear line, the right exit code, and the same as JSON.

#![cfg(any(feature = "local", feature = "docker"))]

mod common;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;

use common::{run, run_text, text};
use serde_json::Value;

/// Runs the command twice: as text, with one line on standard error, and as JSON.
#[track_caller]
fn refused(arguments: &[&OsStr], code: i32, kind: &str, says: &[&str]) {
    let output = run(arguments);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    // Only the lines of a policy file follow, indented.
    let is_source = |line: &str| kind == "invalid_policy" && line.starts_with("  ");
    assert!(stderr.lines().skip(1).all(is_source), "{stderr}");
    assert!(stderr.starts_with("sandbox: "), "{stderr}");
    for part in says {
        assert!(stderr.contains(part), "{part:?} is not in {stderr}");
    }
    let json = [
        &arguments[..1],
        &["-o".as_ref(), "json".as_ref()],
        &arguments[1..],
    ]
    .concat();
    let output = run(json);
    assert_eq!(output.status.code(), Some(code));
    assert_eq!(text(&output.stderr), "");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let error = &document["error"];
    assert_eq!(error["kind"], kind, "{error}");
    assert!(
        error["message"].is_string() && error["unmet"].is_array() && error.get("fix").is_some()
    );
}

#[track_caller]
fn refused_text(arguments: &[&str], code: i32, kind: &str, says: &[&str]) {
    refused(
        &arguments.iter().map(OsStr::new).collect::<Vec<_>>(),
        code,
        kind,
        says,
    );
}

/// Asserts that a policy file with this content is refused.
#[track_caller]
fn refused_policy(name: &str, content: &str, kind: &str, says: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, content).unwrap();
    let path = file.to_str().unwrap();
    let says = says.iter().copied().chain([path]).collect::<Vec<_>>();
    refused_text(
        &["run", "-b", TIER, "--policy", path, "--", "true"],
        125,
        kind,
        &says,
    );
}

/// A tier that is linked. No test here runs anything on it.
const TIER: &str = if cfg!(feature = "local") {
    "local"
} else {
    "docker"
};

#[test]
fn bad_policy_files_are_refused() {
    refused_policy(
        "p.toml",
        "version = 1\nmemroy = '1GiB'",
        "invalid_policy",
        &["line 2", "memroy"],
    );
    refused_policy(
        "p.json",
        r#"{"version": 1, "memroy": 1}"#,
        "invalid_policy",
        &["line 1", "memroy"],
    );
    refused_policy("p.toml", "version = 2", "invalid_policy", &["version = 2"]);
    refused_policy(
        "p.toml",
        "version = 1\nnetwork = 'none'\negress = ['a.org']",
        "invalid_policy",
        &["egress"],
    );
    refused_policy(
        "p.toml",
        "version = 1\nfilesystem_read_roots = [\"/a\\u0000b\"]",
        "invalid_policy",
        &["NUL"],
    );
    refused_policy(
        "p.toml",
        "version = 1\n\u{0}",
        "invalid_policy",
        &["line 2"],
    );
    refused_text(
        &["run", "-b", TIER, "--policy", "/no/such.toml", "--", "x"],
        125,
        "io",
        &["/no/such.toml", "No such file"],
    );
}

#[test]
fn binary_policy_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.toml");
    std::fs::write(&file, b"version = 1\n# \xff").unwrap();
    refused_text(
        &[
            "run",
            "-b",
            TIER,
            "--policy",
            file.to_str().unwrap(),
            "--",
            "x",
        ],
        125,
        "io",
        &["p.toml", "UTF-8"],
    );
}

#[test]
fn options_exceeding_policy_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.toml");
    std::fs::write(
        &file,
        "version = 1\nmemory = '64MiB'\nenv_var_access = false",
    )
    .unwrap();
    let policy = file.to_str().unwrap();
    let run = ["run", "-b", TIER, "--policy", policy];
    let more = [&run[..], &["--memory", "65MiB", "--", "true"]].concat();
    refused_text(
        &more,
        125,
        "policy_exceeded",
        &["--memory 65MiB", "allows 64MiB", policy],
    );
}

#[test]
fn bad_command_lines_are_refused() {
    let usage = |arguments: &[&str], says: &[&str]| {
        refused_text(
            &[&["run", "-b", TIER], arguments].concat(),
            125,
            "usage",
            says,
        );
    };
    usage(&[], &["nothing to run"]);
    usage(&["--memroy", "1", "--", "true"], &["--memroy", "--memory"]);
    usage(&["--memory", "lots", "--", "true"], &["--memory", "lots"]);
    usage(&["--memory", "-1", "--", "true"], &["\"-1\" is not a size"]);
    let too_large = "99999999999999GiB";
    usage(
        &["--memory", too_large, "--", "true"],
        &[too_large, "not a size"],
    );
    usage(&["--cpus", "0", "--", "true"], &["--cpus"]);
    usage(&["--timeout", "soon", "--", "true"], &["--timeout", "soon"]);
    usage(&["--pids", "many", "--", "true"], &["--pids"]);
    usage(&["-e", "HOME", "--", "true"], &["HOME", "NAME=VALUE"]);
    usage(&["-e", "=x", "--", "true"], &["NAME=VALUE"]);
    usage(
        &["--allow-partial", "everything", "--", "true"],
        &["everything"],
    );
    usage(&["--preset", "lenient", "--", "true"], &["lenient"]);
    usage(&["python3", "script.py"], &["script.py"]);
    usage(&["-c", "1", "file.py"], &["--code"]);
    let commands = "sandbox --help lists the commands";
    refused_text(&["rum"], 125, "usage", &["rum", "run", commands]);
    let (code, overview, nothing) = run_text::<&str>([]);
    assert_eq!((code, nothing.as_str()), (Some(0), ""));
    assert!(overview.contains("Usage: sandbox") && overview.contains("doctor"));
}

#[test]
fn out_of_range_values_are_refused() {
    let run = |arguments: &[&str], kind: &str, says: &[&str]| {
        refused_text(
            &[&["run", "-b", TIER], arguments, &["--", "true"]].concat(),
            125,
            kind,
            says,
        );
    };
    run(&["--timeout", "0"], "invalid_policy", &["timeout"]);
    run(&["--memory", "1KiB"], "invalid_policy", &["memory"]);
    run(&["--pids", "0"], "invalid_policy", &["pids"]);
    run(&["--workdir", "relative"], "invalid_spec", &["relative"]);
    run(&["--artifact", "a/../b"], "invalid_policy", &["a/../b"]);
    run(&["--artifact", "/output/../etc"], "invalid_policy", &[".."]);
    run(
        &["--read", "/no/such"],
        "io",
        &["--read /no/such", "No such file"],
    );
    run(&["--write", "/no/such"], "io", &["--write /no/such"]);
    run(
        &["--workspace", "/no/such:ro"],
        "io",
        &["--workspace /no/such"],
    );
    run(&["--workspace", "/etc/passwd"], "usage", &["not a folder"]);
    run(
        &["--artifact", "/output/x", "--out", "/proc/nowhere"],
        "io",
        &["/proc/nowhere"],
    );
    run(
        &["--artifact", "/output/x", "--out", "/etc/passwd"],
        "io",
        &["/etc/passwd"],
    );
}

#[test]
fn values_that_are_not_utf8_are_refused() {
    let odd = OsString::from_vec(b"/a\xff".to_vec());
    let pair = OsString::from_vec(b"A=\xff".to_vec());
    for (option, value) in [("--env", &pair), ("--artifact", &odd), ("--workdir", &odd)] {
        let arguments = [
            "run".as_ref(),
            "-b".as_ref(),
            TIER.as_ref(),
            option.as_ref(),
            value.as_os_str(),
            "--".as_ref(),
            "x".as_ref(),
        ];
        refused(&arguments, 125, "usage", &[option, "UTF-8"]);
    }
}

#[test]
fn unknown_tiers_are_refused() {
    refused_text(
        &["run", "-b", "boat", "--", "true"],
        125,
        "unknown_backend",
        &["boat", "available: ", "choose one of these"],
    );
}

#[test]
#[cfg(not(feature = "docker"))]
fn missing_tier_error_names_its_feature() {
    refused_text(
        &["run", "-b", "docker", "--", "true"],
        125,
        "unknown_backend",
        &["--features docker"],
    );
}

#[test]
fn files_that_cannot_run_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, code, kind, says: &[&str]| {
        let path = folder.path().join(name);
        refused_text(
            &["run", "-b", TIER, path.to_str().unwrap()],
            code,
            kind,
            says,
        );
    };
    run(
        "missing.py",
        127,
        "program_not_found",
        &["missing.py", "No such file"],
    );
    std::fs::write(folder.path().join("notes.txt"), "hello").unwrap();
    run(
        "notes.txt",
        126,
        "not_executable",
        &["notes.txt", "--language"],
    );
    std::fs::create_dir(folder.path().join("folder.py")).unwrap();
    run("folder.py", 126, "not_executable", &["folder.py"]);
}

#[test]
#[cfg(feature = "local")]
fn missing_programs_exit_with_126_or_127() {
    refused_text(
        &["run", "--", "no-such-program"],
        127,
        "program_not_found",
        &["no-such-program"],
    );
    refused_text(
        &["run", "--", "/no/such/program"],
        127,
        "program_not_found",
        &["/no/such/program"],
    );
    refused_text(
        &["run", "--", "/etc/passwd"],
        126,
        "not_executable",
        &["/etc/passwd"],
    );
    refused_text(&["run", "--", "/usr"], 126, "not_executable", &["/usr"]);
    refused_text(&["run", "--", ""], 125, "invalid_request", &["empty"]);
    refused_text(
        &["run", "--workdir", "/no/such", "--", "true"],
        125,
        "bad_workdir",
        &["/no/such"],
    );
}

#[test]
#[cfg(feature = "local")]
fn image_on_tier_without_images_is_refused() {
    let (code, stdout, stderr) = run_text(["run", "--image", "python:3.11-slim", "--", "true"]);
    assert_eq!((code, stdout.as_str()), (Some(125), ""));
    assert!(
        stderr.contains("image") && stderr.lines().count() == 1,
        "{stderr}"
    );
}

#[test]
fn help_exits_with_0() {
    for arguments in [&["--help"][..], &["run", "--help"], &["--version"]] {
        let (code, stdout, stderr) = run_text(arguments);
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        assert!(stdout.contains("sandbox"), "{stdout}");
    }
    assert_eq!(run_text(["no-such-command"]).0, Some(125));
}

#[test]
fn policy_error_shows_the_line_with_a_caret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.toml");
    std::fs::write(&file, "version = 1\nmemory = \"64 megs\"\n").unwrap();
    let path = file.to_str().unwrap();
    let (code, _, stderr) = run_text(["run", "-b", TIER, "--policy", path, "--", "true"]);
    assert_eq!(code, Some(125));
    let lines = stderr.lines().collect::<Vec<_>>();
    assert!(lines[0].contains("\"64 megs\" is not a size"), "{stderr}");
    let line = lines.iter().position(|line| line.contains("2 | memory"));
    let line = line.unwrap_or_else(|| panic!("{stderr}"));
    let column = lines[line].find("\"64").unwrap();
    assert_eq!(lines[line + 1].find('^'), Some(column), "{stderr}");
}

#[test]
fn misleading_tips_are_left_out() {
    let (_, _, stderr) = run_text(["run", "--memroy", "64m", "--", "true"]);
    assert!(stderr.contains("'--memory'"), "{stderr}");
    let (_, _, stderr) = run_text(["run", "-Z", "--", "true"]);
    assert!(!stderr.contains("as a value"), "{stderr}");
}

#[test]
fn bad_volumes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().to_str().unwrap();
    let missing = format!("{source}/missing:/data");
    let with = |rest: &str| format!("{source}:{rest}");
    for (volume, says) in [
        (with("data"), "must be absolute"),
        (missing, "No such file or directory"),
        (with("/data:rw,z"), "SELinux"),
        (with("/data:shared"), "the options are ro and rw"),
        (source.to_owned(), "SRC:DST"),
        (with("/a/../b"), "without '.', '..'"),
        (with("/proc"), "a /proc of its own"),
        (with("/usr"), "programs in the sandbox need this folder"),
        (with("/etc/passwd"), "one of its own"),
    ] {
        let arguments = ["run", "-b", TIER, "-v", &volume, "--", "true"];
        let output = run(arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{volume}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{volume}: {stderr}");
        assert!(stderr.contains(says), "{volume}: {stderr}");
    }
    let (one, other) = (with("/data"), with("/data/deep"));
    for (second, says) in [
        (&one, "the same target"),
        (&other, "overlaps another mount"),
    ] {
        let arguments = ["run", "-b", TIER, "-v", &one, "-v", second, "--", "true"];
        refused_text(&arguments, 125, "invalid_spec", &[says]);
    }
    let workspace = with("/workspace");
    let arguments = [
        "run",
        "-b",
        TIER,
        "-v",
        &workspace,
        "--workspace",
        source,
        "--",
        "true",
    ];
    refused_text(&arguments, 125, "usage", &["already has a workspace"]);
}
