//! The steps that are one command each.

use std::env;
use std::process::Command;
use std::time::Duration;

use super::{Run, THIS_PROGRAM, supervise};
use crate::cargo::BACKENDS;
use crate::failure::{Context, Failure, Result};

/// Most time for one tool to build and check the workspace from nothing on a slow machine.
const BUILD_LIMIT: Duration = Duration::from_secs(40 * 60);
/// Most time for the conformance suite, which has a time limit for each of its probes.
const CONFORMANCE_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Whether rustfmt would change a tracked file. `cargo fmt` alone passes over modules that a macro declares and programs that no
/// target of Cargo names.
///
/// # Errors
/// When it would, or when rustfmt or git is not installed.
pub fn format(run: &Run<'_>) -> Result<()> {
    component(run, "fmt", "rustfmt")?;
    let root = &run.workspace.root;
    let listed = Command::new("git")
        .args(["ls-files", "--deduplicate", "*.rs"])
        .current_dir(root)
        .output()
        .context(|| "cannot start git".into())?;
    let listed = match listed.status.success() {
        true => String::from_utf8_lossy(&listed.stdout).into_owned(),
        false => {
            let said = String::from_utf8_lossy(&listed.stderr);
            return Err(Failure::new(format!("git ls-files: {}", said.trim())));
        }
    };
    // A file that was removed and not committed yet is listed too.
    let files = listed.lines().filter(|file| root.join(file).is_file());
    let mut command = Command::new("rustfmt");
    command.arg("--check").args(files).current_dir(root);
    supervise::run(&mut command, BUILD_LIMIT)?
        .into_result("rustfmt --check")
        .map_err(|failure| failure.with_fix("rustfmt $(git ls-files '*.rs')"))
}

/// Whether clippy warns.
///
/// # Errors
/// When it does, or is not installed.
pub fn clippy(run: &Run<'_>) -> Result<()> {
    component(run, "clippy", "clippy")?;
    let mut command = run.workspace.cargo();
    command
        .args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--features",
            BACKENDS,
        ])
        .args(["--", "-D", "warnings"]);
    supervise::run(&mut command, BUILD_LIMIT)?.into_result("cargo clippy")
}

/// Whether rustdoc warns.
///
/// # Errors
/// When it does.
pub fn docs(run: &Run<'_>) -> Result<()> {
    let flags = env::var("RUSTDOCFLAGS").unwrap_or_default();
    let mut command = run.workspace.cargo();
    command
        .args(["doc", "--workspace", "--no-deps", "--features", BACKENDS])
        .env("RUSTDOCFLAGS", format!("{flags} -D warnings"));
    supervise::run(&mut command, BUILD_LIMIT)?.into_result("cargo doc")
}

/// Attacks every backend that is here, and compares with what was committed.
///
/// # Errors
/// When one does not do what it declares, or what was committed says something else.
pub fn conformance(run: &Run<'_>) -> Result<()> {
    task(run, &["conformance", "--check"])
}

/// Compares what was committed with the suite and the backends of this checkout.
///
/// # Errors
/// When they differ.
pub fn matrix(run: &Run<'_>) -> Result<()> {
    task(run, &["matrix", "--check-committed"])
}

/// Another task of this program, in a process of its own, so that what it leaves is seen too.
fn task(run: &Run<'_>, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(THIS_PROGRAM);
    command.args(arguments).current_dir(&run.workspace.root);
    run.requirements.tell(&mut command);
    supervise::run(&mut command, CONFORMANCE_LIMIT)?
        .into_result(&format!("cargo xtask {}", arguments.join(" ")))
}

fn component(run: &Run<'_>, subcommand: &str, name: &str) -> Result<()> {
    let found = run
        .workspace
        .cargo()
        .args([subcommand, "--version"])
        .output()
        .is_ok_and(|output| output.status.success());
    if found {
        return Ok(());
    }
    Err(Failure::new(format!("cargo {subcommand} is not installed"))
        .with_fix(format!("rustup component add {name}, or --skip this step")))
}
