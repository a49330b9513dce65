//! `cargo xtask supervise`, as a process of its own: it ends every process below it that it did not
//! find when it started. Within the test program, that would include the programs of other tests.

use std::process::Command;

/// Whether a script passes, and what the supervisor prints last.
fn supervise(limit: &str, script: &str) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["supervise", "--limit", limit, "--", "sh", "-c", script])
        .output()
        .expect("xtask");
    let output_text = String::from_utf8_lossy(&output.stdout);
    let last = output_text.lines().last().unwrap_or_default();
    (output.status.code(), last.to_owned())
}

#[test]
fn success_is_no_problem() {
    let (code, last) = supervise("60", "true");
    assert_eq!(code, Some(0));
    assert!(last.starts_with("CPU time: "), "{last}");
}

#[test]
fn exit_code_is_a_problem() {
    let (code, last) = supervise("60", "exit 3");
    assert_eq!(code, Some(1));
    assert_eq!(last, "error: ended with exit status: 3");
}

#[test]
fn process_left_running_is_a_problem_and_is_killed() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let pid_file = folder.path().join("pid");
    let script = format!("setsid sleep 50 & echo $! > {}", pid_file.display());
    let (code, last) = supervise("60", &script);
    assert_eq!(code, Some(1));
    let expected = "error: left processes running (killed now): process ";
    assert!(last.starts_with(expected), "{last}");
    assert!(last.ends_with(" sleep 50"), "{last}");
    assert_killed(&pid_file);
}

#[test]
fn program_over_its_limit_is_killed_with_all_that_it_started() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let pid_file = folder.path().join("pid");
    let script = format!(
        "setsid sleep 51 & echo $! > {}; sleep 52",
        pid_file.display()
    );
    let (code, last) = supervise("1", &script);
    assert_eq!((code, &*last), (Some(1), "error: killed after 1 s"));
    assert_killed(&pid_file);
}

fn assert_killed(pid_file: &std::path::Path) {
    let pid = std::fs::read_to_string(pid_file).expect("a process number");
    let process = std::path::Path::new("/proc").join(pid.trim());
    assert!(!process.exists(), "{} still runs", process.display());
}
