//! `sandbox create`, `exec`, `ls`, `logs`, `stop`, `kill`, `rm` and `prune`: each in a process of
//! its own.

#[path = "../common/mod.rs"]
mod common;
mod creation;
mod egress;
mod ending;
mod executions;
mod sandbox;

use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

use sandbox_testing::users::{Rerun, copy_program, is_root};
use sandbox_testing::{named_tests, trials};

/// A user that owns nothing on this machine.
const USER: u32 = 23_456;

fn main() -> ExitCode {
    trials::main(&[
        (
            None,
            named_tests![
                creation::bad_unknown_and_used_names_are_refused,
                creation::create_without_name_generates_one,
                creation::one_of_twenty_concurrent_creations_gets_the_name,
                creation::killed_creator_leaves_complete_sandbox_or_nothing,
                egress::egress_changes_the_rules_of_a_running_sandbox,
                egress::without_a_carrier_nothing_is_allowed_and_another_one_can_be_started,
                egress::egress_needs_a_sandbox_with_rules,
                ending::sandbox_ends_after_its_lifetime,
                ending::sandbox_ends_when_its_supervisor_is_killed,
                executions::fifty_consecutive_executions_by_name_succeed,
                executions::consecutive_processes_share_a_detached_sandbox,
                executions::command_follows_the_name_with_or_without_dashes,
                executions::exec_applies_input_options_and_limits,
                executions::exec_is_root_inside_where_the_caller_is_root,
                executions::concurrent_executions_are_independent,
                executions::interrupted_execution_leaves_sandbox_running,
                executions::followed_logs_end_with_the_sandbox,
            ],
        ),
        (
            no_rerun(),
            named_tests![detached_sandbox_works_as_ordinary_user],
        ),
    ])
}

/// Why the tests cannot run once more as an ordinary user; `None` if they can.
fn no_rerun() -> Option<&'static str> {
    match (Rerun::is_current(), is_root()) {
        (true, _) => Some("part of another run"),
        (false, false) => Some("needs root"),
        (false, true) => None,
    }
}

/// Runs the other tests as an ordinary user as well.
fn detached_sandbox_works_as_ordinary_user() {
    let rerun = Rerun::new(Some(USER));
    let program = rerun.folder().join("sandbox");
    copy_program(&common::program(), &program);
    let output = rerun
        .command()
        .arg("--test-threads=2")
        .env("SANDBOX_TEST_BIN", &program)
        .uid(USER)
        .gid(USER)
        .output()
        .unwrap();
    Rerun::assert_passed(&output, 16);
    let left = std::fs::read_dir(rerun.folder().join("runtime/sandbox/sandboxes"));
    assert_eq!(left.unwrap().count(), 0);
}
