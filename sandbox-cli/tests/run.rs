//! `sandbox run` on the local tier: programs, streams and exit codes.

#![cfg(feature = "local")]

mod common;

use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{command, exit_code, program, run, run_text, sandbox, text};

#[test]
fn exit_code_is_that_of_the_program() {
    for code in [0, 1, 3, 125, 255] {
        let ended = run_text(["run", "-q", "--", "/bin/sh", "-c", &format!("exit {code}")]);
        assert_eq!(ended, (Some(code), String::new(), String::new()));
    }
}

#[test]
fn signal_exits_with_128_plus_number() {
    let (code, _, stderr) = run_text(["run", "-q", "--", "/bin/sh", "-c", "kill -SEGV $$"]);
    assert_eq!(code, Some(139), "{stderr}");
    assert!(stderr.contains("signal 11"), "{stderr}");
}

#[test]
fn stdout_contains_exactly_the_programs_bytes() {
    let output = run([
        "run",
        "--",
        "/bin/sh",
        "-c",
        "printf 'a\\000b\\377\\nend'; printf 'oh' >&2",
    ]);
    assert_eq!(output.stdout, b"a\0b\xff\nend");
    let stderr = text(&output.stderr);
    let (programs, ours) = stderr.split_once('\n').unwrap();
    assert_eq!(programs, "oh");
    assert!(
        ours.starts_with("sandbox: local: enforced filesystem, network"),
        "{ours}"
    );
    assert_eq!(ours.lines().count(), 1, "{ours}");
}

#[test]
fn published_port_leads_to_the_program() {
    let code = "import socket\n\
        listener = socket.create_server(('127.0.0.1', 8080))\n\
        print('ready', flush=True)\n\
        peer, _ = listener.accept()\n\
        peer.sendall(peer.recv(9)[::-1])";
    let mut child = Command::new(program())
        .args(["run", "-p", "0:8080", "-c", code])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = stderr.next().unwrap().unwrap();
    let address = line.strip_prefix("sandbox: ").unwrap().split(' ').next();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(stdout.next().unwrap().unwrap(), "ready");
    let mut client = std::net::TcpStream::connect(address.unwrap()).unwrap();
    client
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    client.write_all(b"backwards").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "sdrawkcab");
    assert!(child.wait().unwrap().success());
}

#[test]
fn output_and_input_are_streamed() {
    let mut child = Command::new(program())
        .args([
            "run",
            "-qi",
            "--",
            "/bin/sh",
            "-c",
            "echo ready; read line; echo \"got $line\"",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // This would block if output were buffered: standard input is still empty.
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"this\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "got this");
    // The command does not wait for the end of its standard input.
    assert_eq!(exit_code(&mut child, Duration::from_secs(20)), Some(0));
    drop(stdin);
}

#[test]
fn standard_input_is_passed_completely() {
    let input = (0..3_000_000_u32)
        .map(|i| (i % 251) as u8)
        .collect::<Vec<_>>();
    let output = sandbox(["run", "-qi", "--", "cat"])
        .write_stdin(input.clone())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        output.stdout == input,
        "{} of {} bytes",
        output.stdout.len(),
        input.len()
    );
}

#[test]
fn standard_input_requires_interactive_option() {
    for (options, hint) in [("", true), ("-q", false), ("-n", false)] {
        let options = ["run", options].into_iter().filter(|one| !one.is_empty());
        let options: Vec<_> = options.chain(["--", "cat"]).collect();
        // The command looks once, so the pipe has its data before.
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"x").unwrap();
        let mut command = command(&options);
        let output = command
            .stdin(reader)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_eq!((output.status.code(), output.stdout), (Some(0), Vec::new()));
        let stderr = text(&output.stderr);
        let hints = stderr
            .lines()
            .filter(|line| line.contains("-i passes it on"));
        assert_eq!(hints.count(), usize::from(hint), "{stderr}");
    }
    let output = sandbox(["run", "--", "true"]).output().unwrap();
    assert!(!text(&output.stderr).contains("-i passes it on"));
}

#[test]
fn run_in_shell_loop_does_not_consume_loop_input() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines");
    std::fs::write(&file, "a\nb\nc\n").unwrap();
    let script = "while read -r line; do \"$0\" run -q -- echo \"$line\"; done";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(program())
        .stdin(std::fs::File::open(&file).unwrap())
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "a\nb\nc\n");
}

#[test]
fn copied_file_name_shadows_no_module() {
    let folder = tempfile::tempdir().unwrap();
    // In the script's folder, `import json` would find this file.
    let file = folder.path().join("json.py");
    std::fs::write(&file, "import json, sys\nprint(json.dumps(sys.argv[1:]))").unwrap();
    let (code, stdout, stderr) = run_text([
        OsStr::new("run"),
        "-q".as_ref(),
        file.as_ref(),
        "--".as_ref(),
        "-v".as_ref(),
        "a b".as_ref(),
    ]);
    assert_eq!(
        (code, stdout.as_str()),
        (Some(0), "[\"-v\", \"a b\"]\n"),
        "{stderr}"
    );
}

#[test]
fn file_visible_in_sandbox_runs_in_place() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    std::fs::write(folder.path().join("helper.py"), "VALUE = 42").unwrap();
    let file = folder.path().join("main.py");
    std::fs::write(
        &file,
        "import helper, os\nprint(helper.VALUE, os.listdir(os.path.dirname(__file__) or '.'))",
    )
    .unwrap();
    for option in ["--read", "--workspace"] {
        let (code, stdout, stderr) = run_text([
            OsStr::new("run"),
            "-q".as_ref(),
            option.as_ref(),
            folder.path().as_ref(),
            file.as_ref(),
        ]);
        assert_eq!(code, Some(0), "{option}: {stderr}");
        assert!(
            stdout.starts_with("42 [") && stdout.contains("helper.py"),
            "{option}: {stdout}"
        );
    }
    // Its folder is readable without an option too, which is said.
    let (code, stdout, stderr) = run_text([OsStr::new("run"), file.as_ref()]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.starts_with("42 ["), "{stdout}");
    let said = format!("{} is readable", folder.path().display());
    assert!(stderr.contains(&said), "{stderr}");
    // The script is copied into the sandbox without its folder.
    let alone = [OsStr::new("run"), "--no-siblings".as_ref(), file.as_ref()];
    let (code, _, stderr) = run_text(alone);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("No module named 'helper'"), "{stderr}");
}

#[test]
fn words_after_file_are_its_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("arguments.py");
    std::fs::write(&file, "import sys\nprint(sys.argv[1:])").unwrap();
    let line = ["a", "b", "-q", "--", "-v"].map(OsStr::new);
    let (code, stdout, stderr) =
        run_text([&[OsStr::new("run"), file.as_ref()], &line[..]].concat());
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(stdout, "['a', 'b', '-v']\n");
}

#[test]
fn mistyped_commands_get_the_line_that_was_meant() {
    for (line, says) in [
        (&["run", "ls", "-la"][..], "sandbox run -- ls -la"),
        (&["run", "make", "test"], "sandbox run -- make test"),
        (&["run", "echo a && ls"], "-l shell -c 'echo a && ls'"),
        (&["run", "--", "echo a && ls"], "-l shell -c 'echo a && ls'"),
    ] {
        let (code, _, stderr) = run_text(line);
        assert!(matches!(code, Some(125 | 127)), "{code:?}");
        assert!(stderr.contains(says), "{line:?}: {stderr}");
    }
}

#[test]
fn shebang_line_selects_interpreter() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tool");
    std::fs::write(&file, "#!/bin/sh\necho \"$0 $1\"").unwrap();
    let output = run([
        OsStr::new("run"),
        "-q".as_ref(),
        file.as_ref(),
        "--".as_ref(),
        "x".as_ref(),
    ]);
    assert_eq!(
        text(&output.stdout),
        "/tmp/sandbox-run/run-tool x\n",
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn non_utf8_names_and_arguments_are_passed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(OsStr::from_bytes(b"odd\xff.py"));
    std::fs::write(
        &file,
        "import sys, os\nsys.stdout.buffer.write(os.fsencode(sys.argv[1]))",
    )
    .unwrap();
    let odd = OsStr::from_bytes(b"a\xfe\xffb");
    let output = run([
        OsStr::new("run"),
        "-q".as_ref(),
        file.as_ref(),
        "--".as_ref(),
        odd,
    ]);
    assert_eq!(output.stdout, odd.as_bytes(), "{}", text(&output.stderr));
    let output = run([
        OsStr::new("run"),
        "-q".as_ref(),
        "--".as_ref(),
        "printf".as_ref(),
        "%s".as_ref(),
        odd,
    ]);
    assert_eq!(output.stdout, odd.as_bytes(), "{}", text(&output.stderr));
}

#[test]
fn code_runs_in_selected_language() {
    let (code, stdout, stderr) = run_text(["run", "-q", "-c", "print(6 * 7)"]);
    assert_eq!((code, stdout.as_str()), (Some(0), "42\n"), "{stderr}");
    let shell = [
        "run",
        "-q",
        "--language",
        "shell",
        "-c",
        "echo $((6 * 7)) $1",
        "--",
        "x",
    ];
    assert_eq!(run_text(shell).1, "42 x\n");
}

#[test]
fn environment_contains_only_named_variables() {
    let mut command = sandbox(["run", "-q", "-e", "NAMED=a=b", "-e", "EMPTY=", "--", "env"]);
    let output = command.env("SECRET_OF_THE_HOST", "x").output().unwrap();
    let text = text(&output.stdout);
    let mut names = text
        .lines()
        .map(|line| line.split('=').next().unwrap())
        .collect::<Vec<_>>();
    names.sort_unstable();
    assert_eq!(names, ["EMPTY", "HOME", "NAMED", "PATH"]);
    assert!(text.contains("NAMED=a=b\n"), "{text}");
}

#[test]
fn code_starts_in_workspace() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    std::fs::write(folder.path().join("in"), "from outside").unwrap();
    let workspace = folder.path().to_str().unwrap();
    let script = "pwd; cat in; echo inside > out";
    let (code, stdout, stderr) = run_text([
        "run",
        "-q",
        "--workspace",
        workspace,
        "--",
        "/bin/sh",
        "-c",
        script,
    ]);
    assert_eq!(
        (code, stdout.as_str()),
        (Some(0), "/workspace\nfrom outside"),
        "{stderr}"
    );
    assert_eq!(
        std::fs::read_to_string(folder.path().join("out")).unwrap(),
        "inside\n"
    );
    let read_only = format!("{workspace}:ro");
    let script = "cat in && echo x > out2";
    let (code, _, stderr) = run_text([
        "run",
        "-q",
        "--workspace",
        &read_only,
        "--",
        "/bin/sh",
        "-c",
        script,
    ]);
    assert_ne!(code, Some(0));
    assert!(
        stderr.contains("Read-only file system") || stderr.contains("ermission denied"),
        "{stderr}"
    );
    assert!(!folder.path().join("out2").exists());
}

#[test]
fn workdir_option_sets_working_directory() {
    assert_eq!(
        run_text(["run", "-q", "--workdir", "/tmp", "--", "pwd"]).1,
        "/tmp\n"
    );
}

#[test]
fn no_subprocess_option_forbids_child_processes() {
    let code = "import os\ntry:\n    os.fork()\n    print('forked')\nexcept OSError:\n    print('refused')";
    let (exit, stdout, stderr) = run_text(["run", "-q", "--no-subprocess", "-c", code]);
    assert_eq!((exit, stdout.as_str()), (Some(0), "refused\n"), "{stderr}");
}

#[test]
fn unsafe_tier_removes_copied_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("main.py");
    std::fs::write(&file, "print(__file__)").unwrap();
    let run = ["run", "-b", "local_unsafe", "-q"].map(OsStr::new);
    let (code, stdout, stderr) = run_text(run.into_iter().chain([file.as_os_str()]));
    assert_eq!(code, Some(0), "{stderr}");
    let copy = std::path::PathBuf::from(stdout.trim_end());
    assert!(copy.ends_with("run-main.py") && copy != file, "{stdout}");
    assert!(!copy.parent().unwrap().exists(), "{stdout}");
    assert_eq!(
        stderr,
        "sandbox: warning: local_unsafe applies no policy: nothing is enforced\n"
    );
}
