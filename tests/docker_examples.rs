//! Examples that need Docker print what their descriptions say. Cargo builds them with the tests.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Output};

use sandbox::spi::unique_name;
use sandbox_testing::requirements::is_required;
use sandbox_testing::{named_tests, trials};

/// An image with the libraries of the examples; see `ci/images.sh`.
const LANGUAGES: &str = "sandbox-test/languages:latest";

fn main() -> ExitCode {
    let missing = missing();
    trials::main(&[(
        missing.as_deref(),
        named_tests![plots_are_captured_in_new_and_existing_containers],
    )])
}

/// Why Docker cannot be used; `None` if it has the image.
///
/// # Panics
///
/// If it cannot and `SANDBOX_REQUIRE` names `docker`.
fn missing() -> Option<String> {
    let inspected = Command::new("docker")
        .args(["image", "inspect", LANGUAGES])
        .output();
    let problem = match inspected {
        Ok(output) if output.status.success() => return None,
        Ok(output) => text(&output.stderr),
        Err(error) => format!("cannot start docker: {error}"),
    };
    assert!(
        !is_required("docker"),
        "SANDBOX_REQUIRE names docker, but: {problem}"
    );
    Some(problem)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeeds(command: &mut Command) -> Output {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    output
}

fn plots_are_captured_in_new_and_existing_containers() {
    let own = std::env::current_exe().expect("this program");
    // `target/debug/deps/docker_examples-…` is this program.
    let example: PathBuf = own
        .ancestors()
        .nth(2)
        .expect("the folder of the profile")
        .join("examples/plots");
    let folder = tempfile::tempdir().expect("a folder");
    let existing = unique_name("existing");
    let run = ["run", "--detach", "--network", "none", "--name", &existing];
    succeeds(
        Command::new("docker")
            .args(run)
            .args([LANGUAGES, "sleep", "300"]),
    );
    let ran = Command::new(&example)
        .args([LANGUAGES.as_ref(), folder.path()])
        .arg(&existing)
        .output();
    succeeds(Command::new("docker").args(["rm", "--force", &existing]));
    let ran = ran.unwrap_or_else(|error| panic!("{}: {error}", example.display()));
    let expected = "new container: captured 3 plots\nprogram: captured 1 plots\n\
                    existing container: captured 3 plots\n";
    assert_eq!(text(&ran.stdout), expected, "{}", text(&ran.stderr));
    for (file, start) in [
        ("session/000001.png", "\u{fffd}PNG"),
        ("session/000002.png", "\u{fffd}PNG"),
        ("session/000003.html", "<div>"),
        ("existing/000003.html", "<div>"),
        ("program/plot-001.png", "\u{fffd}PNG"),
    ] {
        let content = std::fs::read(folder.path().join(file));
        let content = content.unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text(&content).trim_start().starts_with(start), "{file}");
    }
}
