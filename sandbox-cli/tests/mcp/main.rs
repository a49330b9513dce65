//! `sandbox mcp` as clients see it: lines of JSON, HTTP, and official clients of the protocol.

mod calls;
mod client;
mod code;
#[path = "../common/mod.rs"]
mod common;
mod http;
mod http_client;
mod limits;
mod official;
mod process;
mod sandboxes;
mod sessions;

use std::process::ExitCode;

use sandbox_testing::requirements::fail_if_required;
use sandbox_testing::{named_tests, trials};

fn main() -> ExitCode {
    let missing = missing();
    if let Some(code) = fail_if_required("local", missing) {
        return code;
    }
    let python = std::path::Path::new("/usr/bin/python3").exists();
    let python = missing.or((!python).then_some("needs python3 in /usr"));
    let node = std::path::Path::new("/usr/bin/node").exists();
    let node = missing.or((!node).then_some("needs node in /usr"));
    trials::main(&[
        (
            None,
            named_tests![
                process::wrong_options_are_one_line,
                process::new_token_is_printed_and_a_given_one_is_not,
            ],
        ),
        (
            missing,
            named_tests![
                calls::tools_are_listed,
                calls::unknown_tool_and_method_are_errors_of_the_protocol,
                calls::unknown_arguments_are_refused,
                calls::silent_client_is_no_error,
                calls::progress_is_reported_on_request,
                calls::cancelled_call_ends_its_processes,
                calls::end_of_the_connection_ends_its_processes,
                code::failed_program_is_a_result,
                code::time_limit_ends_the_processes,
                code::long_output_is_a_resource,
                code::unknown_language_is_an_error,
                limits::wider_requests_are_refused,
                limits::options_are_a_limit_too,
                limits::reasons_are_explained,
                limits::resources_tell_the_policy_and_the_host,
                process::output_is_only_the_protocol,
                process::killed_server_leaves_no_process_and_no_file,
                process::closed_input_and_signals_end_the_processes,
                process::options_and_policy_file_are_the_limit,
                sandboxes::files_stay_between_calls,
                sandboxes::sandbox_has_resources,
                sandboxes::artifact_survives_its_sandbox,
                sandboxes::links_and_special_files_are_not_exported,
                sandboxes::names_and_numbers_are_limited,
                sandboxes::creation_decides_what_a_sandbox_has,
                sessions::shell_keeps_its_variables,
                http::token_is_required,
                http::foreign_hosts_and_origins_are_refused,
                http::other_paths_are_not_found,
                http::address_of_other_machines_is_refused,
                http::session_has_its_own_sandboxes,
                http::foreign_sandboxes_are_refused,
                http::end_of_a_session_ends_its_processes,
                http::clients_without_sessions_share_sandboxes,
                http::lost_connection_ends_a_call_without_a_session,
            ],
        ),
        (
            python,
            named_tests![
                code::python_runs_in_a_new_sandbox,
                code::images_are_returned_inline,
                code::files_arguments_and_input_reach_the_program,
                sessions::python_keeps_its_variables,
                sessions::failed_cell_is_a_result,
                sessions::lost_variables_are_told,
                sessions::cancelled_cell_is_interrupted,
                sessions::displays_are_images_and_links,
                sessions::sessions_are_separate_and_limited,
            ],
        ),
        (node, named_tests![sessions::javascript_keeps_its_variables]),
        (
            official::missing_python(),
            named_tests![official::python_client_is_content],
        ),
        (
            official::missing_node(),
            named_tests![
                official::typescript_client_is_content,
                official::conformance_runner_finds_no_fault,
            ],
        ),
    ])
}

/// Why the local tier cannot run these tests here; `None` if it can.
fn missing() -> Option<&'static str> {
    let (code, _, _) = common::run_text(["check"]);
    (code != Some(0)).then_some("needs the tier local; `sandbox check` says what is missing")
}
