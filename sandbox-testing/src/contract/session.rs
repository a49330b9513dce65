//! Sessions of the languages that the test images have.

use sandbox_core::{CapabilityPolicy, SandboxClient, SandboxHandle, SandboxSpec};

use super::{BUSYBOX, ContractTest, LANGUAGES, PYTHON, TestBackend, TestResult, run};
use crate::sessions::{
    javascript, plot_libraries, pool, python, python_branches, python_forks, python_hostile,
    python_plots, r, shell,
};

/// The beginning of the names of the tests of JavaScript, which need [`LANGUAGES`].
pub(super) const JAVASCRIPT: &str = "session::javascript::";

/// The beginning of the names of the tests of R, which need [`LANGUAGES`].
pub(super) const R: &str = "session::r::";

/// The beginning of the names of the tests of real plots, which need [`LANGUAGES`].
pub(super) const PLOT_LIBRARIES: &str = "session::plot_libraries::";

/// Runs a check in a sandbox with an image.
fn check(
    backend: &'static dyn TestBackend,
    image: &str,
    check: impl AsyncFnOnce(&SandboxHandle),
) -> TestResult {
    run(async {
        let client = backend.client(CapabilityPolicy::new());
        let sandbox = client.create(&backend.spec().image(image)).await?;
        check(&sandbox).await;
        sandbox.kill().await
    })
}

macro_rules! tests {
    ($($image:ident: $module:ident::$name:ident,)*) => {
        &[$((
            concat!("session::", stringify!($module), "::", stringify!($name)),
            |backend| check(backend, $image, $module::$name),
        ),)*]
    };
}

/// Runs a check of pools.
fn check_pool(
    backend: &'static dyn TestBackend,
    check: impl AsyncFnOnce(&SandboxClient, &SandboxSpec),
) -> TestResult {
    run(async {
        let client = backend.client(CapabilityPolicy::new());
        check(&client, &backend.spec().image(PYTHON)).await;
        Ok(())
    })
}

pub const POOL_TESTS: &[ContractTest] = &[
    (
        "session::pool::claims_see_nothing_of_each_other",
        |backend| check_pool(backend, pool::claims_see_nothing_of_each_other),
    ),
    (
        "session::pool::ended_sandbox_is_not_handed_over",
        |backend| check_pool(backend, pool::ended_sandbox_is_not_handed_over),
    ),
    (
        "session::pool::claimed_sandbox_is_new_and_ends_with_its_claim",
        |backend| {
            check_pool(
                backend,
                pool::claimed_sandbox_is_new_and_ends_with_its_claim,
            )
        },
    ),
    ("session::pool::lifetime_ends_a_claim", |backend| {
        check_pool(backend, pool::lifetime_ends_a_claim)
    }),
];

pub const TESTS: &[ContractTest] = tests![
    PYTHON: python::state_is_kept,
    PYTHON: python::errors_have_the_lines_of_the_cells,
    PYTHON: python::values_have_representations,
    PYTHON: python::input_is_given_or_ends,
    PYTHON: python::output_is_live,
    PYTHON: python::output_is_bounded,
    PYTHON: python::endless_cell_is_interrupted,
    PYTHON: python::cell_that_waits_for_a_child_loses_it,
    PYTHON: python::cell_that_ignores_its_interrupt_is_killed,
    PYTHON: python::background_process_does_not_delay_a_cell,
    PYTHON: python::forked_child_does_not_end_the_cell,
    PYTHON: python::dropped_cell_leaves_a_known_state,
    PYTHON: python::session_ends_at_its_time_limits,
    PYTHON: python::working_folder_is_the_code_s,
    PYTHON: python::language_without_sessions_is_refused,
    PYTHON: python_hostile::crash_is_told,
    PYTHON: python_hostile::closed_descriptors_are_told,
    PYTHON: python_hostile::wrong_messages_end_the_interpreter,
    PYTHON: python_hostile::forged_end_concerns_its_own_session_only,
    PYTHON: python_plots::figures_are_displayed_once,
    PYTHON: python_plots::figures_have_the_chosen_formats,
    PYTHON: python_plots::figures_of_plotly_are_displayed,
    PYTHON: python_branches::branch_has_the_state_and_is_independent,
    PYTHON: python_branches::end_of_a_branch_concerns_it_alone,
    PYTHON: python_branches::branch_ends_with_its_session,
    PYTHON: python_branches::interpreter_with_threads_has_no_branches,
    PYTHON: python_forks::fork_sees_variables_and_keeps_none,
    PYTHON: python_forks::preloaded_modules_are_loaded,
    PYTHON: python_forks::end_of_a_fork_is_told,
    PYTHON: python_forks::endless_fork_is_ended,
    PYTHON: python_forks::background_process_does_not_delay_a_fork,
    PYTHON: python_forks::interpreter_with_threads_is_not_forked,
    LANGUAGES: javascript::state_is_kept,
    LANGUAGES: javascript::errors_have_the_lines_of_the_cells,
    LANGUAGES: javascript::values_have_representations,
    LANGUAGES: javascript::input_is_given_or_ends,
    LANGUAGES: javascript::output_is_bounded,
    LANGUAGES: javascript::endless_cell_is_interrupted,
    LANGUAGES: javascript::end_of_the_interpreter_is_told,
    LANGUAGES: javascript::branches_are_refused,
    LANGUAGES: r::state_is_kept,
    LANGUAGES: r::errors_have_the_lines_of_the_cells,
    LANGUAGES: r::input_is_given_or_ends,
    LANGUAGES: r::plots_are_displayed_once,
    LANGUAGES: r::endless_cell_is_interrupted,
    LANGUAGES: r::end_of_the_interpreter_is_told,
    LANGUAGES: r::forged_messages_end_the_interpreter,
    LANGUAGES: plot_libraries::python_shows_figures_and_tables,
    LANGUAGES: plot_libraries::r_shows_figures,
    BUSYBOX: shell::state_is_kept,
    BUSYBOX: shell::failures_are_told_and_keep_the_state,
    BUSYBOX: shell::code_cannot_break_out_of_its_cell,
    BUSYBOX: shell::input_is_given_or_ends,
    BUSYBOX: shell::output_is_live,
    BUSYBOX: shell::output_is_bounded,
    BUSYBOX: shell::endless_cell_is_interrupted,
    BUSYBOX: shell::cell_that_waits_for_a_child_loses_it,
    BUSYBOX: shell::cell_that_ignores_its_interrupt_is_killed,
    BUSYBOX: shell::background_process_does_not_delay_a_cell,
    BUSYBOX: shell::background_process_ends_between_cells,
    BUSYBOX: shell::programs_get_no_descriptor_of_the_session,
    BUSYBOX: shell::end_of_the_shell_is_told,
    BUSYBOX: shell::closed_descriptors_do_not_end_the_session,
    BUSYBOX: shell::forged_marks_end_the_shell,
    BUSYBOX: shell::dropped_cell_leaves_a_known_state,
    BUSYBOX: shell::closing_runs_exit_traps,
];
