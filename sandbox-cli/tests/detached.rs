//! `sandbox create`, `exec`, `ls`, `logs`, `stop`, `kill`, `rm` and `prune`: each in a process of
//! its own.

#![cfg(feature = "local")]

mod common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{
    await_ready, exit_code, processes_with, program, sandbox, text, unique_seconds, wait_until,
};
use serde_json::Value;

/// Set if a test has started this run of the tests.
const AGAIN: &str = "SANDBOX_TEST_AGAIN";

/// A user that owns nothing on this machine.
const USER: u32 = 23_456;

/// The detached sandbox of a test, removed when dropped.
struct DetachedSandbox {
    name: String,
}

impl DetachedSandbox {
    fn name(what: &str) -> Self {
        let name = format!("{what}-{}", unique_seconds().replace('.', "-"));
        Self { name }
    }

    fn create(what: &str, options: &[&str]) -> Self {
        let sandbox = Self::name(what);
        let arguments = [
            &["create", "--name", &sandbox.name, "--ttl", "2m", "-q"],
            options,
        ]
        .concat();
        let (code, stdout, stderr) = run(&arguments);
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        assert_eq!(stdout, format!("{}\n", sandbox.name));
        sandbox
    }

    fn exec(&self, command: &[&str]) -> (Option<i32>, String, String) {
        run(&[&["exec", &self.name, "--"], command].concat())
    }

    fn sh(&self, script: &str) -> String {
        let (code, stdout, stderr) = self.exec(&["sh", "-c", script]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{script}");
        stdout
    }

    fn listed(&self) -> Option<Value> {
        let (code, stdout, _) = run(&["ls", "-b", "local", "-o", "json"]);
        assert_eq!(code, Some(0));
        let list: Value = serde_json::from_str(&stdout).unwrap();
        let is_ours = |sandbox: &&Value| sandbox["name"] == self.name.as_str();
        list["sandboxes"]
            .as_array()
            .unwrap()
            .iter()
            .find(is_ours)
            .cloned()
    }

    fn folder(&self) -> PathBuf {
        state_folder().join("sandboxes").join(&self.name)
    }

    fn record(&self) -> Value {
        let text = std::fs::read_to_string(self.folder().join("sandbox.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    fn keeper(&self) -> u32 {
        u32::try_from(self.record()["parts"]["keeper"]["pid"].as_u64().unwrap()).unwrap()
    }
}

impl Drop for DetachedSandbox {
    fn drop(&mut self) {
        // Most tests have already removed it.
        let _ = run(&["rm", "-b", "local", &self.name]);
    }
}

fn state_folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) if std::env::var_os(AGAIN).is_some() => {
            PathBuf::from(runtime).join("sandbox")
        }
        _ if rustix_user() == 0 => "/run/sandbox".into(),
        Some(runtime) => PathBuf::from(runtime).join("sandbox"),
        None => format!("/tmp/sandbox-{}", rustix_user()).into(),
    }
}

fn rustix_user() -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").unwrap().uid()
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    common::run_text(arguments)
}

fn error(arguments: &[&str]) -> Value {
    let output: Output = common::run(arguments);
    assert_eq!(output.status.code(), Some(125), "{arguments:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["error"].clone()
}

/// A sandbox serves few clients at once, and each of these is gone when the next one comes.
#[test]
fn fifty_consecutive_executions_by_name_succeed() {
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

/// Runs the other tests as an ordinary user as well.
#[test]
fn detached_sandbox_works_as_ordinary_user() {
    if rustix_user() != 0 || std::env::var_os(AGAIN).is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path, mode| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(folder.path(), 0o755);
    let runtime = folder.path().join("runtime");
    std::fs::create_dir(&runtime).unwrap();
    std::os::unix::fs::chown(&runtime, Some(USER), Some(USER)).unwrap();
    open(&runtime, 0o700);
    let (tests, command) = (folder.path().join("tests"), folder.path().join("sandbox"));
    std::fs::copy(std::env::current_exe().unwrap(), &tests).unwrap();
    std::fs::copy(program(), &command).unwrap();
    let output = Command::new(&tests)
        .args(["--test-threads", "2"])
        .current_dir("/")
        .env(AGAIN, "1")
        .env("SANDBOX_TEST_BIN", &command)
        .env("XDG_RUNTIME_DIR", &runtime)
        .env("HOME", "/nonexistent")
        .uid(USER)
        .gid(USER)
        .output()
        .unwrap();
    let output_text = text(&output.stdout);
    assert!(
        output.status.success(),
        "{output_text}{}",
        text(&output.stderr)
    );
    assert!(output_text.contains("test result: ok. "), "{output_text}");
    assert_eq!(
        std::fs::read_dir(runtime.join("sandbox/sandboxes"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn consecutive_processes_share_a_detached_sandbox() {
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

    assert_eq!(
        run(&["stop", &sandbox.name]),
        (Some(0), format!("{}\n", sandbox.name), String::new())
    );
    assert!(!sandbox.folder().exists());
    assert!(sandbox.listed().is_none());
}

#[test]
fn exec_applies_input_options_and_limits() {
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

#[test]
fn concurrent_executions_are_independent() {
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

#[test]
fn interrupted_execution_leaves_sandbox_running() {
    let sandbox = DetachedSandbox::create("interrupted", &[]);
    for signal in ["-INT", "-KILL"] {
        let marker = unique_seconds();
        let script = format!("setsid sleep {marker} & echo ready; sleep {marker}");
        let mut child = Command::new(program())
            .args(["exec", &sandbox.name, "--", "sh", "-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        await_ready(&mut child);
        let id = child.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &id])
                .status()
                .unwrap()
                .success()
        );
        let code = exit_code(&mut child, Duration::from_secs(10));
        assert_eq!(code, (signal == "-INT").then_some(130));
        wait_until("its tree is gone", Duration::from_secs(5), || {
            processes_with(&marker).is_empty()
        });
        assert_eq!(sandbox.sh("echo alive"), "alive\n");
    }
}

#[test]
fn followed_logs_end_with_the_sandbox() {
    let sandbox = DetachedSandbox::create("followed", &[]);
    sandbox.sh("echo first");
    let mut child = Command::new(program())
        .args(["logs", "-f", &sandbox.name])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
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

#[test]
fn bad_unknown_and_used_names_are_refused() {
    let sandbox = DetachedSandbox::create("named", &[]);
    let name = sandbox.name.as_str();
    let taken = error(&["create", "-o", "json", "--name", name]);
    assert_eq!(taken["kind"], "already_exists");
    assert!(taken["fix"].as_str().unwrap().contains(name), "{taken}");
    for bad in ["", "a", "A-b", "../x", "a/b", ".hidden", &"x".repeat(64)] {
        let failed = error(&["create", "-o", "json", "--name", bad]);
        assert_eq!(failed["kind"], "invalid_spec", "{bad:?}");
        let failed = error(&["exec", "-o", "json", bad, "--", "true"]);
        assert_eq!(failed["kind"], "invalid_spec", "{bad:?}");
    }
    let failed = error(&["create", "-o", "json", "--ttl", "0"]);
    assert_eq!(failed["kind"], "invalid_spec");
    for arguments in [
        &["exec", "-o", "json", "no-such-sandbox", "--", "true"][..],
        &["logs", "-o", "json", "no-such-sandbox"],
        &["cp", "-o", "json", "no-such-sandbox:/tmp", "/nowhere"],
    ] {
        assert_eq!(
            error(arguments)["kind"],
            "sandbox_not_found",
            "{arguments:?}"
        );
    }
    let of_another = error(&[
        "exec",
        "-o",
        "json",
        "-b",
        "local_unsafe",
        name,
        "--",
        "true",
    ]);
    assert_eq!(of_another["kind"], "sandbox_not_found");
    assert!(
        of_another["fix"].as_str().unwrap().contains("-b local"),
        "{of_another}"
    );
    for way in ["stop", "kill", "rm"] {
        // One that there is among some that there are not.
        let (code, stdout, stderr) = run(&[way, "no-such-1", name, "no-such-2"]);
        assert_eq!((code, stdout), (Some(125), format!("{name}\n")), "{way}");
        assert_eq!(stderr.lines().count(), 2, "{stderr}");
        assert!(!sandbox.folder().exists());
        let (code, _, stderr) = run(&[way, name]);
        assert_eq!(code, Some(125));
        assert!(stderr.contains("no sandbox"), "{stderr}");
        let (code, document, _) = run(&[way, "-o", "json", name]);
        let document: Value = serde_json::from_str(&document).unwrap();
        assert_eq!(code, Some(125));
        assert_eq!(
            document["sandboxes"][0]["error"]["kind"],
            "sandbox_not_found"
        );
        let again = run(&["create", "-q", "--ttl", "2m", "--name", name]);
        assert_eq!(
            (again.0, again.2.as_str()),
            (Some(0), ""),
            "the name is free"
        );
    }
}

#[test]
fn create_without_name_generates_one() {
    let (code, document) = common::run_json(&["create", "--ttl", "2m"]);
    assert_eq!(code, Some(0));
    let name = document["name"].as_str().unwrap().to_owned();
    let sandbox = DetachedSandbox { name };
    assert_eq!(document["tier"], "local");
    assert!(document["enforcement"].as_array().unwrap().len() > 5);
    assert!(document["expires"].as_str().unwrap().ends_with('Z'));
    assert_eq!(sandbox.sh("echo ran"), "ran\n");
    let (code, _, stderr) = run(&[
        "create",
        "--name",
        &sandbox.name,
        "--policy",
        "/no/such/file",
    ]);
    assert_eq!(code, Some(125));
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn one_of_twenty_concurrent_creations_gets_the_name() {
    let sandbox = DetachedSandbox::name("wanted");
    let start = || {
        Command::new(program())
            .args([
                "create",
                "-o",
                "json",
                "--ttl",
                "2m",
                "--name",
                &sandbox.name,
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children = (0..20).map(|_| start()).collect::<Vec<_>>();
    let mut won = 0;
    for child in children {
        let output = child.wait_with_output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        match output.status.code() {
            Some(0) => won += 1,
            Some(125) => assert_eq!(document["error"]["kind"], "already_exists", "{document}"),
            code => panic!("{code:?} {document}"),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(sandbox.sh("echo one"), "one\n");
    let keepers = || processes_with(&sandbox.name).len();
    assert_eq!(keepers(), 1);
    assert_eq!(run(&["kill", &sandbox.name]).0, Some(0));
    wait_until("no keeper is left", Duration::from_secs(5), || {
        keepers() == 0
    });
}

#[test]
fn sandbox_ends_after_its_lifetime() {
    let sandbox = DetachedSandbox::name("timed");
    let (code, _, stderr) = run(&["create", "--name", &sandbox.name, "--ttl", "3s"]);
    assert_eq!(code, Some(0));
    assert!(stderr.starts_with("sandbox: local: enforced "), "{stderr}");
    let record = sandbox.record();
    let (keeper, agent) = (
        sandbox.keeper(),
        record["parts"]["agent"]["pid"].as_u64().unwrap(),
    );
    let (code, _, stderr) = sandbox.exec(&["sleep", "60"]);
    assert_eq!(code, Some(125));
    assert!(stderr.contains("lifetime of 3s is over"), "{stderr}");
    wait_until("nothing is left", Duration::from_secs(5), || {
        let groups = record["parts"]["groups"].as_array().unwrap().iter();
        !sandbox.folder().exists()
            && !Path::new(&format!("/proc/{keeper}")).exists()
            && !Path::new(&format!("/proc/{agent}")).exists()
            && groups
                .map(|group| group.as_str().unwrap())
                .all(|group| !Path::new(group).exists())
    });
}

#[test]
fn sandbox_ends_when_its_supervisor_is_killed() {
    for way in ["rm", "prune"] {
        let sandbox = DetachedSandbox::create("killed", &[]);
        let living = DetachedSandbox::create("living", &[]);
        let keeper = sandbox.keeper().to_string();
        assert!(
            Command::new("kill")
                .args(["-KILL", &keeper])
                .status()
                .unwrap()
                .success()
        );
        wait_until("it has ended", Duration::from_secs(5), || {
            sandbox
                .listed()
                .is_some_and(|listed| listed["state"] == "ended")
        });
        for arguments in [
            &["exec", "-o", "json", &sandbox.name, "--", "true"][..],
            &["logs", "-o", "json", &sandbox.name],
        ] {
            let failed = error(arguments);
            assert_eq!(failed["kind"], "sandbox_ended");
            assert!(
                failed["fix"].as_str().unwrap().contains("sandbox rm"),
                "{failed}"
            );
        }
        let (code, _, stderr) = run(&["stop", &sandbox.name]);
        assert_eq!(code, Some(125), "{stderr}");
        let (code, stdout, stderr) = match way {
            "rm" => run(&["rm", &sandbox.name]),
            _ => run(&["prune", "-b", "local"]),
        };
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        assert!(stdout.lines().any(|line| line == sandbox.name), "{stdout}");
        assert!(!sandbox.folder().exists());
        assert_eq!(living.sh("echo alive"), "alive\n");
    }
    let (code, stdout, _) = run(&["prune", "-o", "json"]);
    assert_eq!(code, Some(0));
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert!(document["sandboxes"].is_array());
}

/// The creator is killed at some moment: the sandbox is there, whole, or not at all.
#[test]
fn killed_creator_leaves_complete_sandbox_or_nothing() {
    let start = Instant::now();
    drop(DetachedSandbox::create("measured", &[]));
    let usual = start.elapsed();
    let moments = (0..36).map(|step| usual * step / 30);
    // However busy the machine is, one of these is late enough.
    let late = (1..=6).map(|power| usual * 2_u32.pow(power));
    let mut whole = 0;
    for moment in moments.chain(late) {
        let sandbox = DetachedSandbox::name("creator");
        let mut child = Command::new(program())
            .args(["create", "-q", "--ttl", "2m", "--name", &sandbox.name])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(moment);
        child.kill().unwrap();
        child.wait().unwrap();
        let start = Instant::now();
        loop {
            match sandbox.listed() {
                Some(listed) if listed["state"] == "running" => {
                    // It may be about to be given up: then the keeper removes it at once.
                    let (code, stdout, stderr) = sandbox.exec(&["echo", "alive"]);
                    if code == Some(0) {
                        assert_eq!(stdout, "alive\n");
                        std::thread::sleep(Duration::from_millis(50));
                        if sandbox.listed().is_some() {
                            whole += 1;
                            break;
                        }
                    }
                    assert!(
                        start.elapsed() < Duration::from_secs(5),
                        "{code:?} {stderr}"
                    );
                }
                Some(listed) => panic!("{listed}"),
                None if !sandbox.folder().exists() && processes_with(&sandbox.name).is_empty() => {
                    break;
                }
                None => assert!(
                    start.elapsed() < Duration::from_secs(5),
                    "half of it is left"
                ),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    assert!(whole > 0, "each was killed too early");
}
