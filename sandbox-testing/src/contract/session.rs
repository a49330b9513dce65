//! Sessions of the language that the test images have: Python.

use sandbox_core::{CapabilityPolicy, SandboxHandle};

use super::{ContractTest, PYTHON, TestBackend, TestResult, run};
use crate::sessions::{python, python_hostile, python_plots};

/// Runs a check in a sandbox with Python.
fn check(backend: &'static dyn TestBackend, check: impl AsyncFnOnce(&SandboxHandle)) -> TestResult {
    run(async {
        let client = backend.client(CapabilityPolicy::new());
        let sandbox = client.create(&backend.spec().image(PYTHON)).await?;
        check(&sandbox).await;
        sandbox.kill().await
    })
}

macro_rules! tests {
    ($($module:ident::$name:ident,)*) => {
        &[$((
            concat!("session::", stringify!($module), "::", stringify!($name)),
            |backend| check(backend, $module::$name),
        ),)*]
    };
}

pub const TESTS: &[ContractTest] = tests![
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
];
