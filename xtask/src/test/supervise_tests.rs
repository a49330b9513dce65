//! Tests of the supervision. Each runs again in a process of its own, because waiting for every
//! child takes them away from the other tests.

use std::env;
use std::process::Command;
use std::time::{Duration, Instant};

use super::{Ended, run_and_read};

const ALONE: &str = "SANDBOX_XTASK_TEST_ALONE";

/// Runs `body` as the only test of a new process.
fn alone(name: &str, body: impl FnOnce()) {
    if env::var_os(ALONE).is_some() {
        return body();
    }
    let output = Command::new(env::current_exe().expect("this program"))
        .args([
            "--exact",
            &format!("test::supervise::tests::{name}"),
            "--nocapture",
        ])
        .env(ALONE, "1")
        .output()
        .expect("this program again");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{output:?}"
    );
}

fn shell(script: &str, limit: Duration) -> (Ended, Vec<String>) {
    let mut lines = Vec::new();
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let ended = run_and_read(&mut command, limit, &mut |line| lines.push(line.to_owned()));
    (ended.expect("supervision"), lines)
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn output_and_status_are_passed_on() {
    alone("output_and_status_are_passed_on", || {
        let (ended, lines) = shell("echo one; echo two >&2; printf three; exit 3", LONG);
        assert_eq!(lines, ["one", "two", "three"]);
        let failure = ended.into_result("it").expect_err("exit 3");
        assert_eq!(failure.to_string(), "it failed with exit status: 3");
        let (ended, _) = shell("read line && exit 1; exit 0", LONG);
        assert_eq!(ended.into_result("no input"), Ok(()));
    });
}

#[test]
fn what_escapes_is_found_and_ended() {
    alone("what_escapes_is_found_and_ended", || {
        let (ended, lines) = shell(
            "setsid sh -c 'sleep 3017 & wait' & sleep 0.3; echo $!",
            LONG,
        );
        assert_eq!(lines.len(), 1);
        assert!(
            ended.left.iter().any(|left| left.ends_with("sleep 3017")),
            "{ended:?}"
        );
        let failure = ended.into_result("it").expect_err("left behind");
        assert!(failure.to_string().contains("left running"), "{failure}");
        let (ended, _) = shell("sleep 0.5 & exit 0", LONG);
        assert_eq!(ended.into_result("what ends by itself in time"), Ok(()));
    });
}

#[test]
fn an_orphan_that_ends_is_waited_for() {
    alone("an_orphan_that_ends_is_waited_for", || {
        // The orphan's number, then, once it has ended, what /proc has of it.
        let script = "sh -c 'sleep 0.2 & echo $!' >pid; sleep 0.6; ls -d /proc/$(cat pid) 2>&1";
        let folder = tempfile::tempdir().expect("folder");
        let (_, lines) = shell(&format!("cd {}; {script}", folder.path().display()), LONG);
        assert!(lines[0].contains("No such file"), "{lines:?}");
    });
}

#[test]
fn a_program_that_takes_too_long_is_ended_with_all_of_it() {
    alone(
        "a_program_that_takes_too_long_is_ended_with_all_of_it",
        || {
            let begin = Instant::now();
            let script = "trap '' TERM; setsid sleep 3018 & sleep 3018";
            let (ended, _) = shell(script, Duration::from_millis(300));
            assert!(begin.elapsed() < LONG);
            let failure = ended.into_result("it").expect_err("too long");
            assert_eq!(failure.to_string(), "it took longer than 0 s");
            let own = rustix::process::getpid().as_raw_pid();
            assert_eq!(super::descendants::below(own), []);
        },
    );
}
