//! Sessions, with the checks that all backends share.

use std::sync::Arc;

use sandbox_core::blocking::BlockingClient;
use sandbox_core::{ErrorKind, SandboxClient, SandboxHandle};
use sandbox_lang::{BlockingSessions as _, Sessions as _};
use sandbox_local::{LocalBackend, LocalConfig};
use sandbox_testing::sessions::{
    javascript, pool, python, python_branches, python_forks, python_hostile, python_plots, r, shell,
};

use crate::harness::{Need, Test, test};
use crate::support::{client, create, policy, spec};

async fn check(check: impl AsyncFnOnce(&SandboxHandle)) {
    let sandbox = create(policy()).await;
    check(&sandbox).await;
    sandbox.kill().await.expect("it ends");
}

macro_rules! tests {
    ($needs:expr; $($module:ident::$name:ident,)*) => {
        &[$(Test {
            module: concat!("local::sessions::", stringify!($module)),
            name: stringify!($name),
            run: || crate::harness::block_on_threads(check($module::$name)),
            needs: &$needs,
        },)*]
    };
}

pub const PYTHON: &[Test] = tests![
    [Need::Program("python3")];
    python::state_is_kept,
    python::errors_have_the_lines_of_the_cells,
    python::values_have_representations,
    python::input_is_given_or_ends,
    python::output_is_live,
    python::output_is_bounded,
    python::endless_cell_is_interrupted,
    python::cell_that_waits_for_a_child_loses_it,
    python::cell_that_ignores_its_interrupt_is_killed,
    python::background_process_does_not_delay_a_cell,
    python::forked_child_does_not_end_the_cell,
    python::dropped_cell_leaves_a_known_state,
    python::session_ends_at_its_time_limits,
    python::working_folder_is_the_code_s,
    python::language_without_sessions_is_refused,
    python_hostile::crash_is_told,
    python_hostile::closed_descriptors_are_told,
    python_hostile::wrong_messages_end_the_interpreter,
    python_hostile::forged_end_concerns_its_own_session_only,
    python_plots::figures_are_displayed_once,
    python_plots::figures_have_the_chosen_formats,
    python_plots::figures_of_plotly_are_displayed,
    python_forks::fork_sees_variables_and_keeps_none,
    python_forks::preloaded_modules_are_loaded,
    python_forks::end_of_a_fork_is_told,
    python_forks::endless_fork_is_ended,
    python_forks::background_process_does_not_delay_a_fork,
    python_forks::interpreter_with_threads_is_not_forked,
];

/// Without namespaces, a sandbox has no Unix sockets, so its interpreters have no branches.
pub const BRANCHES: &[Test] = tests![
    [Need::Program("python3"), Need::Namespaces];
    python_branches::branch_has_the_state_and_is_independent,
    python_branches::end_of_a_branch_concerns_it_alone,
    python_branches::branch_ends_with_its_session,
    python_branches::interpreter_with_threads_has_no_branches,
];

pub const JAVASCRIPT: &[Test] = tests![
    [Need::Program("node")];
    javascript::state_is_kept,
    javascript::errors_have_the_lines_of_the_cells,
    javascript::values_have_representations,
    javascript::input_is_given_or_ends,
    javascript::output_is_bounded,
    javascript::endless_cell_is_interrupted,
    javascript::end_of_the_interpreter_is_told,
    javascript::branches_are_refused,
];

pub const R: &[Test] = tests![
    [Need::Program("Rscript")];
    r::state_is_kept,
    r::errors_have_the_lines_of_the_cells,
    r::input_is_given_or_ends,
    r::plots_are_displayed_once,
    r::endless_cell_is_interrupted,
    r::end_of_the_interpreter_is_told,
    r::forged_messages_end_the_interpreter,
];

pub const SHELL: &[Test] = tests![
    [Need::Program("sh")];
    shell::state_is_kept,
    shell::failures_are_told_and_keep_the_state,
    shell::code_cannot_break_out_of_its_cell,
    shell::input_is_given_or_ends,
    shell::output_is_live,
    shell::output_is_bounded,
    shell::endless_cell_is_interrupted,
    shell::cell_that_waits_for_a_child_loses_it,
    shell::cell_that_ignores_its_interrupt_is_killed,
    shell::background_process_does_not_delay_a_cell,
    shell::background_process_ends_between_cells,
    shell::end_of_the_shell_is_told,
    shell::closed_descriptors_do_not_end_the_session,
    shell::dropped_cell_leaves_a_known_state,
    shell::closing_runs_exit_traps,
];

/// Their code reads `/proc`, which is hidden without namespaces.
pub const SHELL_WITH_PROC: &[Test] = tests![
    [Need::Program("sh"), Need::Namespaces];
    shell::programs_get_no_descriptor_of_the_session,
    shell::forged_marks_end_the_shell,
];

pub const TESTS: &[Test] = &[
    test!(threads branch_without_unix_sockets_is_refused, Need::Program("python3"), Need::OrdinaryUser),
    test!(threads session_needs_no_child_processes, Need::Program("python3")),
    test!(threads pool_keeps_claims_apart, Need::Program("python3")),
    test!(threads pool_hands_over_no_ended_sandbox, Need::Program("python3")),
    test!(threads pool_of_sandboxes_hands_over_new_ones),
    test!(threads pool_ends_claims_at_their_lifetime, Need::Program("python3")),
    test!(sync blocking_session_keeps_state, Need::Program("python3")),
];

async fn session_needs_no_child_processes() {
    let mut policy = policy();
    policy.subprocess_execution = Some(false);
    let sandbox = create(policy).await;
    let session = sandbox.session("python".into()).await.expect("it starts");
    session.run("x = 6").await.expect("it runs");
    let cell = session.run("print(x * 7)").await.expect("it runs");
    assert_eq!(cell.stdout.text(), "42\n", "{cell:?}");
}

async fn branch_without_unix_sockets_is_refused() {
    let backend = LocalBackend::new(LocalConfig::new().without_user_namespaces());
    let client = SandboxClient::with_backend(Arc::new(backend), policy()).expect("a valid policy");
    let sandbox = client.create(&spec()).await.expect("a sandbox");
    let session = sandbox.session("python".into()).await.expect("it starts");
    session.run("x = 6").await.expect("it runs");
    let error = session.branch().await.expect_err("it needs a socket");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("Unix socket"), "{error}");
    let cell = session.run("print(x * 7)").await.expect("it runs");
    assert_eq!(cell.stdout.text(), "42\n", "{cell:?}");
}

async fn pool_keeps_claims_apart() {
    pool::claims_see_nothing_of_each_other(&client(policy()), &spec()).await;
}

async fn pool_hands_over_no_ended_sandbox() {
    pool::ended_sandbox_is_not_handed_over(&client(policy()), &spec()).await;
}

async fn pool_of_sandboxes_hands_over_new_ones() {
    pool::claimed_sandbox_is_new_and_ends_with_its_claim(&client(policy()), &spec()).await;
}

async fn pool_ends_claims_at_their_lifetime() {
    pool::lifetime_ends_a_claim(&client(policy()), &spec()).await;
}

fn blocking_session_keeps_state() {
    let client = BlockingClient::new(client(policy())).expect("a runtime");
    let sandbox = client.create(&spec()).expect("a sandbox");
    let session = sandbox.session("python".into()).expect("it starts");
    session.run("x = 6").expect("it runs");
    let mut events = 0;
    let cell = session.run_with("print(x * 7)", |_| events += 1);
    assert_eq!(cell.expect("it runs").stdout.text(), "42\n");
    assert!(events > 0);
    session.restart().expect("it starts");
    let cell = session.run("x").expect("it runs");
    assert_eq!(cell.error().expect("x is lost").name, "NameError");
    session.close().expect("it ends");
}
