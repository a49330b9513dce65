//! `sandbox run` with code of each kind of language, and `sandbox languages`.

mod common;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;

use common::{run_json, run_text, sandbox, text};
use sandbox_testing::users::open_folder;
use sandbox_testing::{named_tests, trials};

fn main() -> ExitCode {
    let gcc = Path::new("/usr/bin/gcc").exists();
    let gcc = (!gcc).then_some("needs gcc in /usr/bin");
    trials::main(&[
        (
            gcc,
            named_tests![
                extension_selects_the_compiler,
                compiled_code_gets_arguments_and_input,
                failed_compilation_is_told_as_such,
                nothing_is_left_on_the_host_without_isolation,
            ],
        ),
        (
            None,
            named_tests![
                dash_reads_code_from_standard_input,
                typescript_runs_only_where_node_strips_types,
                aliases_name_languages,
                unknown_language_names_the_known_ones,
                languages_are_listed,
                languages_of_a_tier_are_found,
            ],
        ),
    ])
}

const ECHO: &str = "#include <stdio.h>\n\
    int main(int count, char **arguments) {\n\
      char line[99] = \"nothing\";\n\
      fgets(line, sizeof line, stdin);\n\
      printf(\"%d %s %s\\n\", count, arguments[1], line);\n\
      return 3;\n}\n";

fn extension_selects_the_compiler() {
    let folder = open_folder();
    let file = folder.path().join("echo.c");
    std::fs::write(&file, ECHO).unwrap();
    let file = file.to_str().unwrap();
    let (code, stdout, stderr) = run_text(["run", "-q", file, "--", "one"]);
    assert_eq!(
        (code, stdout.as_str()),
        (Some(3), "2 one nothing\n"),
        "{stderr}"
    );
    assert_eq!(stderr, "");
}

fn compiled_code_gets_arguments_and_input() {
    let mut command = sandbox(["run", "-qi", "-l", "c", "-c", ECHO, "--", "two"]);
    let output = command.write_stdin("a line").output().unwrap();
    assert_eq!(
        text(&output.stdout),
        "2 two a line\n",
        "{}",
        text(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(3));
}

fn failed_compilation_is_told_as_such() {
    let arguments = [
        "run",
        "-l",
        "c",
        "-c",
        "int main(void) {\n  return missing;\n}",
    ];
    let (code, stdout, stderr) = run_text(arguments);
    assert_eq!((code, stdout.as_str()), (Some(125), ""));
    assert!(stderr.contains("main.c:2:10: error"), "{stderr}");
    assert!(
        stderr.ends_with("sandbox: compile code failed: exited with code 1\n"),
        "{stderr}"
    );
    let (code, document) = run_json(&arguments);
    assert_eq!(code, Some(125));
    assert_eq!(document["error"]["kind"], "compile_failed");
    let message = document["error"]["message"].as_str().unwrap();
    assert!(message.contains("main.c:2:10: error"), "{message}");
}

fn dash_reads_code_from_standard_input() {
    let run = |arguments: &[&str], code: &str| {
        let mut command = sandbox(arguments);
        let output = command.write_stdin(code).output().unwrap();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let shell = ["run", "-q", "-l", "sh", "-", "--", "x"];
    let ended = run(&shell, "echo \"$1 $#\"; exit 4");
    assert_eq!(ended, (Some(4), "x 1\n".into(), String::new()));
    let (code, stdout, stderr) = run(&["run", "-q", "-"], "import sys\nprint(6 * 7)\n1 / 0\n");
    assert_eq!((code, stdout.as_str()), (Some(1), "42\n"), "{stderr}");
    assert!(stderr.contains("line 3"), "{stderr}");
}

fn aliases_name_languages() {
    for name in ["sh", "shell", "SH"] {
        let ended = run_text(["run", "-q", "-l", name, "-c", "echo $0"]);
        assert_eq!(ended, (Some(0), "sh\n".into(), String::new()), "{name}");
    }
    let ended = run_text(["run", "-q", "-l", "bash", "-c", "x=(a b); echo ${x[1]}"]);
    assert_eq!(ended, (Some(0), "b\n".into(), String::new()));
}

fn unknown_language_names_the_known_ones() {
    let (code, _, stderr) = run_text(["run", "-l", "cobol", "-c", "x"]);
    assert_eq!(code, Some(125));
    assert!(stderr.contains("unknown language \"cobol\""), "{stderr}");
    assert!(stderr.contains("python, javascript"), "{stderr}");
}

fn languages_are_listed() {
    let (code, stdout, stderr) = run_text(["languages"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(stdout.starts_with("LANGUAGE"), "{stdout}");
    assert_eq!(stdout.lines().count(), 13, "{stdout}");
    let (code, document) = run_json(&["languages"]);
    assert_eq!(code, Some(0));
    let python = &document["languages"][0];
    assert_eq!(python["name"], "python");
    assert_eq!(python["libraries"], "pip");
    assert_eq!(python["compiled"], false);
    for (name, installer) in [
        ("javascript", "npm"),
        ("typescript", "npm"),
        ("ruby", "gem"),
        ("go", "go"),
        ("rust", "cargo"),
    ] {
        let rows = document["languages"].as_array().unwrap();
        let row = rows.iter().find(|row| row["name"] == name).unwrap();
        assert_eq!(row["libraries"], installer, "{name}");
    }
    let rows = document["languages"].as_array().unwrap();
    let java = rows.iter().find(|row| row["name"] == "java").unwrap();
    assert!(java["libraries"].is_null());
    assert!(python["found"].is_null() && document["tier"].is_null());
}

fn languages_of_a_tier_are_found() {
    let (code, document) = run_json(&["languages", "-b", "local"]);
    assert_eq!((code, &document["tier"]), (Some(0), &"local".into()));
    let languages = document["languages"].as_array().unwrap();
    let shell = languages.iter().find(|one| one["name"] == "sh").unwrap();
    assert_eq!(shell["found"][0], "/bin/sh");
    for language in languages {
        let found = language["found"].is_array();
        assert_ne!(found, language["problem"].is_string(), "{language}");
    }
}

fn nothing_is_left_on_the_host_without_isolation() {
    let code = "int main(int count, char **arguments) { return count; }";
    let folder = open_folder();
    // The tier's temporary folder.
    let temporary = format!("-eTMPDIR={}", folder.path().display());
    for code in [code, "no C"] {
        let arguments = [
            "run",
            "-q",
            "-b",
            "local_unsafe",
            &temporary,
            "-l",
            "c",
            "-c",
            code,
        ];
        let (ended, _, stderr) = run_text(arguments);
        let expected = if code == "no C" { 125 } else { 1 };
        assert_eq!(ended, Some(expected), "{stderr}");
        let left = std::fs::read_dir(folder.path()).unwrap();
        let left = left.map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// A `node` in the search path says which version it is, and which file it runs.
fn typescript_runs_only_where_node_strips_types() {
    let folder = open_folder();
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let file = write("script.ts", "let x: number = 1;");
    let path = format!("PATH={}", folder.path().display());
    let read = folder.path().display().to_string();
    let run = |version: &str| {
        let node =
            format!("#!/bin/sh\n[ \"$1\" = --version ] && echo {version} || echo \"$2 $3\"\n");
        write("node", &node);
        run_text(["run", "-q", "--read", &read, "-e", &path, &file, "--", "x"])
    };
    let expected = (Some(0), format!("{file} x\n"), String::new());
    assert_eq!(run("v22.18.0"), expected);
    let (code, stdout, stderr) = run("v22.17.1");
    assert_eq!((code, stdout.as_str()), (Some(125), ""));
    assert!(
        stderr.contains("22.18 or newer") && stderr.contains("v22.17.1"),
        "{stderr}"
    );
    assert!(stderr.contains("(fix: "), "{stderr}");
}
