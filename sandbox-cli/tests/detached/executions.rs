//! `exec` and `logs`: each command is a separate process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sandbox_testing::users::is_root;
use serde_json::Value;

use crate::common::{
    self, await_ready, exit_code, processes_with, program, sandbox, text, unique_seconds,
    wait_until,
};
use crate::sandbox::{DetachedSandbox, error, run};

/// A sandbox serves few clients at once, so each client must be removed before the next connects.
pub fn fifty_consecutive_executions_by_name_succeed() {
    let sandbox = DetachedSandbox::create("row", &[]);
    for number in 0..50 {
        let number = number.to_string();
        let (code, stdout, stderr) = sandbox.exec(&["echo", &number]);
        assert_eq!(
            (code, stdout, stderr),
            (Some(0), format!("{number}\n"), String::new())
        );
    }
}

pub fn consecutive_processes_share_a_detached_sandbox() {
    let sandbox = DetachedSandbox::create("used", &["-e", "GREETING=hello", "--label", "team=a b"]);
    assert_eq!(
        sandbox.sh("echo $GREETING; echo sandbox > /tmp/file"),
        "hello\n"
    );
    assert_eq!(sandbox.sh("cat /tmp/file"), "sandbox\n");
    let (code, stdout, stderr) = sandbox.exec(&["sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(
        (code, stdout.as_str(), stderr.as_str()),
        (Some(7), "out\n", "err\n")
    );
    let listed = sandbox.listed().unwrap();
    assert_eq!(listed["state"], "running");
    assert_eq!(listed["tier"], "local");
    assert_eq!(listed["labels"]["team"], "a b");
    let (code, table, _) = run(&["ls"]);
    let line = table
        .lines()
        .find(|line| line.starts_with(&format!("{} ", sandbox.name)));
    assert!(
        code == Some(0) && line.is_some_and(|line| line.contains("running")),
        "{table}"
    );
    let (code, log, _) = run(&["logs", &sandbox.name]);
    assert_eq!(
        (code, log.as_str()),
        (Some(0), "hello\nsandbox\nout\nerr\n")
    );
    let (_, log, _) = run(&["logs", "--tail", "2", &sandbox.name]);
    assert_eq!(log, "out\nerr\n");
    let (_, log, _) = run(&["logs", "-o", "json", "--tail", "1", &sandbox.name]);
    let log: Value = serde_json::from_str(&log).unwrap();
    assert_eq!(
        (&log["name"], &log["log"]),
        (&Value::from(sandbox.name.as_str()), &"err\n".into())
    );
    let (code, stats, _) = run(&["stats", "-o", "json", &sandbox.name]);
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert_eq!((code, &stats["labels"]["team"]), (Some(0), &"a b".into()));
    // What is not measured is not 0.
    let peak = &stats["stats"]["memory_peak_bytes"];
    assert!(peak.is_null() || peak.as_u64() > Some(0), "{stats}");
    let (code, table, _) = run(&["stats", &sandbox.name]);
    assert_eq!((code, table.lines().count()), (Some(0), 2), "{table}");
    let (code, list, errors) = run(&["ls", "--stats", "-b", "local", "-o", "json"]);
    let list: Value = serde_json::from_str(&list).unwrap();
    let mut listed = list["sandboxes"].as_array().unwrap().iter();
    let own = listed.find(|listed| listed["name"] == sandbox.name.as_str());
    assert_eq!(code, Some(0), "{errors}");
    // Another measurement of the same sandbox.
    let (first, second) = (&stats["stats"], &own.expect("it is listed")["stats"]);
    let is_known = |stats: &Value| !stats["memory_bytes"].is_null();
    assert_eq!(is_known(first), is_known(second), "{first} {second}");

    assert_eq!(
        run(&["stop", &sandbox.name]),
        (Some(0), format!("{}\n", sandbox.name), String::new())
    );
    assert!(!sandbox.folder().exists());
    assert!(sandbox.listed().is_none());
}

pub fn command_follows_the_name_with_or_without_dashes() {
    let sandbox = DetachedSandbox::create("typed", &[]);
    let name = sandbox.name.as_str();
    let command = ["printf", "%s.", "-w", "--", "a"];
    for before in [
        &["exec", name][..],
        &["exec", name, "--"],
        &["exec", "-w", "/tmp", name, "--timeout", "20"],
    ] {
        let arguments = [before, &command].concat();
        let expected = (Some(0), "-w.--.a.".to_owned(), String::new());
        assert_eq!(run(&arguments), expected, "{arguments:?}");
    }
}

pub fn exec_applies_input_options_and_limits() {
    let created = DetachedSandbox::create("options", &["--timeout", "20s", "--stdout-max", "1KiB"]);
    let name = created.name.as_str();
    let output = sandbox([
        "exec",
        "-i",
        name,
        "--",
        "sh",
        "-c",
        "tr a-z A-Z; echo \"$A\"; pwd",
    ])
    .write_stdin("input\n")
    .output()
    .unwrap();
    assert_eq!(text(&output.stdout), "INPUT\n\n/workspace\n");
    let (code, stdout, _) = run(&[
        "exec",
        "-e",
        "A=b c",
        "--workdir",
        "/tmp",
        name,
        "--",
        "sh",
        "-c",
        "echo \"$A\"; pwd",
    ]);
    assert_eq!((code, stdout.as_str()), (Some(0), "b c\n/tmp\n"));
    let start = Instant::now();
    let (code, stdout, stderr) = run(&[
        "exec",
        "--timeout",
        "1s",
        name,
        "--",
        "sh",
        "-c",
        "echo before; sleep 60",
    ]);
    assert_eq!((code, stdout.as_str()), (Some(124), "before\n"));
    assert!(stderr.contains("timed out"), "{stderr}");
    let longer = ["exec", "--timeout", "60s", "-o", "json", name, "--", "true"];
    let (code, stdout, stderr) = run(&longer);
    assert_eq!(code, Some(0));
    assert!(stderr.contains("--timeout is reduced to 20s"), "{stderr}");
    assert!(stdout.contains("\"timeout_ms\":20000.0"), "{stdout}");
    assert!(start.elapsed() < Duration::from_secs(10));
    for (command, expected) in [(&["no-such-program"][..], 127), (&["/etc/passwd"][..], 126)] {
        let (code, _, stderr) = created.exec(command);
        assert_eq!(code, Some(expected), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    let (code, _, _) = created.exec(&["sh", "-c", "kill -9 $$"]);
    assert_eq!(code, Some(137));
    let (_, stdout, stderr) = created.exec(&["head", "-c", "5000", "/dev/zero"]);
    assert_eq!(stdout.len(), 1024);
    assert!(stderr.contains("1024 of 5000 bytes"), "{stderr}");
    let (code, document) = common::run_json(&["exec", name, "--", "sh", "-c", "echo o; exit 3"]);
    assert_eq!(code, Some(3));
    assert_eq!(
        (&document["stdout"], &document["exit_code"]),
        (&"o\n".into(), &3.into())
    );
}

pub fn concurrent_executions_are_independent() {
    let sandbox = DetachedSandbox::create("apart", &[]);
    let start = |letter: &str| {
        let script = format!("for i in 1 2 3 4 5; do echo {letter}$i; sleep 0.1; done; cat");
        let mut child = Command::new(program())
            .args(["exec", "-i", &sandbox.name, "--", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(format!("{letter}6\n").as_bytes()).unwrap();
        child
    };
    let (a, b) = (start("a"), start("b"));
    for (letter, child) in [("a", a), ("b", b)] {
        let output = child.wait_with_output().unwrap();
        let expected = (1..=6)
            .map(|i| format!("{letter}{i}\n"))
            .collect::<String>();
        assert_eq!(
            (output.status.code(), text(&output.stdout)),
            (Some(0), expected)
        );
    }
}

pub fn interrupted_execution_leaves_sandbox_running() {
    let sandbox = DetachedSandbox::create("interrupted", &[]);
    for signal in ["-INT", "-KILL"] {
        let marker = unique_seconds();
        let script = format!("setsid sleep {marker} & echo ready; sleep {marker}");
        let mut child = common::command(&["exec", &sandbox.name, "--", "sh", "-c", &script])
            .spawn()
            .unwrap();
        await_ready(&mut child);
        common::signal(&child, signal);
        let code = exit_code(&mut child, Duration::from_secs(10));
        assert_eq!(code, (signal == "-INT").then_some(130));
        wait_until("its tree is gone", Duration::from_secs(20), || {
            processes_with(&marker).is_empty()
        });
        assert_eq!(sandbox.sh("echo alive"), "alive\n");
    }
}

pub fn followed_logs_end_with_the_sandbox() {
    let sandbox = DetachedSandbox::create("followed", &[]);
    sandbox.sh("echo first");
    let mut child = common::command(&["logs", "-f", &sandbox.name])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "first");
    sandbox.sh("echo second");
    assert_eq!(lines.next().unwrap().unwrap(), "second");
    assert_eq!(run(&["stop", &sandbox.name]).0, Some(0));
    assert!(lines.next().is_none());
    assert_eq!(exit_code(&mut child, Duration::from_secs(10)), Some(0));
    assert_eq!(error(&["logs", "-f", "-o", "json", "lab"])["kind"], "usage");
}

pub fn exec_is_root_inside_where_the_caller_is_root() {
    let sandbox = DetachedSandbox::create("users", &[]);
    let exec = |user: &str| {
        let arguments = ["exec", "--user", user, &sandbox.name, "--"];
        run(&[&arguments[..], &["sh", "-c", "echo $(id -u) > /dev/stdout"]].concat())
    };
    for root in ["root", "0:0"] {
        let (code, stdout, stderr) = exec(root);
        match is_root() {
            true => assert_eq!((code, stdout.as_str()), (Some(0), "0\n"), "{stderr}"),
            false => {
                assert_eq!((code, stdout.as_str()), (Some(125), ""));
                assert!(stderr.contains("the only user of this sandbox"), "{stderr}");
            }
        }
    }
    let own = sandbox.sh("id -u");
    let named = exec(own.trim());
    assert_eq!(named, (Some(0), own, String::new()));
    let (code, _, stderr) = exec("nobody");
    assert_eq!(code, Some(125));
    assert!(
        stderr.contains("write it as root, uid or uid:gid"),
        "{stderr}"
    );
}
