//! Tests of real sandboxes on this machine, as the current user. As root, `users` runs them again
//! as an ordinary user. Both users also run them as if user namespaces were denied.

mod artifacts;
mod cancellation;
mod cargo_packages;
mod code;
mod cran_packages;
mod denials;
mod detached;
mod egress;
mod go_packages;
mod harness;
mod isolation;
mod kernel_objects;
mod libraries;
mod lifetime;
mod limits;
mod live_packages;
mod mounts;
mod packages;
mod paths;
mod ports;
mod residue;
mod root_inside;
mod roots;
mod secrets;
mod sessions;
mod streams;
mod support;
mod sys_files;
mod terminal;
mod users;
mod working_folder;
mod workspace;

use std::process::ExitCode;

/// The minimum number of tests that must pass when they run again as another user.
const MIN_REPEATED_TESTS: u32 = 60;

fn main() -> ExitCode {
    if let Some(code) = egress::run_owner_if_asked() {
        return code;
    }
    harness::main(&[
        artifacts::TESTS,
        cancellation::TESTS,
        cargo_packages::TESTS,
        cran_packages::TESTS,
        code::TESTS,
        denials::TESTS,
        detached::TESTS,
        detached::creation::TESTS,
        detached::ending::TESTS,
        detached::memory::TESTS,
        egress::TESTS,
        go_packages::TESTS,
        isolation::TESTS,
        kernel_objects::TESTS,
        lifetime::TESTS,
        limits::TESTS,
        live_packages::TESTS,
        libraries::TESTS,
        mounts::TESTS,
        packages::TESTS,
        paths::TESTS,
        ports::TESTS,
        root_inside::TESTS,
        roots::TESTS,
        secrets::TESTS,
        sessions::PYTHON,
        sessions::BRANCHES,
        sessions::JAVASCRIPT,
        sessions::R,
        sessions::SHELL,
        sessions::SHELL_WITH_PROC,
        sessions::TESTS,
        streams::TESTS,
        sys_files::TESTS,
        terminal::TESTS,
        users::TESTS,
        working_folder::TESTS,
        workspace::TESTS,
    ])
}
