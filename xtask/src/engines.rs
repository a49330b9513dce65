//! The engines that tests use, as `ci/engines.sh` describes them.

use std::env;
use std::process::{Command, ExitCode, Stdio};

use crate::cargo::Workspace;
use crate::failure::{Context, Failure};

/// The variable that names a cluster.
const KUBECONFIG: &str = "KUBECONFIG";

/// The engine that has a cluster instead of a socket.
const KUBERNETES: &str = "k8s";

/// A user that exists, and the whole environment of this user's programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The user's number.
    pub uid: u32,
    /// The number of the user's group.
    pub gid: u32,
    /// Names and values.
    pub environment: Vec<(String, String)>,
}

/// Arguments that go to a script in `ci/`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct ScriptArguments {
    /// The script's arguments; --help prints them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<String>,
}

/// Runs a script in `ci/` as the task.
///
/// # Errors
///
/// If it cannot be started.
pub fn run(name: &str, arguments: &ScriptArguments) -> Result<ExitCode, Failure> {
    finish(script(name)?.args(&arguments.arguments))
}

/// Runs a command to its end.
///
/// # Errors
///
/// If it cannot be started.
pub fn finish(command: &mut Command) -> Result<ExitCode, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .context(|| format!("cannot start {name}"))?;
    Ok(match status.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// A script in `ci/`.
///
/// # Errors
///
/// If the workspace cannot be found.
pub fn script(name: &str) -> Result<Command, Failure> {
    Ok(Command::new(Workspace::find()?.root.join("ci").join(name)))
}

/// Checks that an engine answers and has the test images. Where it `is_required`, missing images
/// are built and imported, and the cluster of `KUBECONFIG` may be used.
///
/// # Errors
///
/// If it does not.
pub fn check(name: &str, is_required: bool) -> Result<(), Failure> {
    let mut status = script("engines.sh")?;
    status.args(["status", name]);
    if !is_required {
        status.env_remove(KUBECONFIG);
    }
    output(&mut status)?;
    if name == KUBERNETES {
        return Ok(());
    }
    let mut images = script("images.sh")?;
    images.args(["--engine", name]);
    if !is_required {
        images.arg("--check");
    }
    output(images.stderr(Stdio::inherit())).map(drop)
}

/// The configuration of the cluster that `KUBECONFIG` names, or else of the one that
/// `cargo xtask engines up k8s` starts.
///
/// # Errors
///
/// If there is no folder for it.
pub fn kubeconfig() -> Result<String, Failure> {
    match env::var(KUBECONFIG) {
        Ok(named) if !named.is_empty() => Ok(named),
        _ => own_kubeconfig(),
    }
}

/// The configuration of the cluster that `cargo xtask engines up k8s` starts.
///
/// # Errors
///
/// If the script does not run.
pub fn own_kubeconfig() -> Result<String, Failure> {
    output(script("engines.sh")?.arg("kubeconfig"))
}

/// Whether there is a cluster that answers.
pub fn has_cluster() -> bool {
    script("engines.sh")
        .and_then(|mut status| output(status.args(["status", KUBERNETES])))
        .is_ok()
}

/// The user of rootless Podman.
///
/// # Errors
///
/// If there is none.
pub fn rootless_owner() -> Result<Account, Failure> {
    let text = output(script("engines.sh")?.arg("rootless-account"))?;
    parse_owner(&text).ok_or_else(|| Failure::new(format!("unexpected account: {text:?}")))
}

/// Reads the user, the group, and then a variable in each line.
fn parse_owner(text: &str) -> Option<Account> {
    let mut lines = text.lines();
    let (uid, gid) = (lines.next()?.parse().ok()?, lines.next()?.parse().ok()?);
    let variable = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    Some(Account {
        uid,
        gid,
        environment: lines.map(variable).collect::<Option<_>>()?,
    })
}

/// What a program writes on standard output, without the end of its line.
fn output(command: &mut Command) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.context(|| format!("cannot start {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let reason = text.lines().chain(errors.lines()).next_back();
    Err(Failure::new(match reason {
        Some(line) => line.trim_start_matches("error: ").to_owned(),
        None => format!("{name} ended with {}", output.status),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_is_parsed_as_two_numbers_and_variables() {
        let owner = parse_owner("1001\n1002\nHOME=/home\nA=b=c\n").expect("an account");
        assert_eq!((owner.uid, owner.gid), (1001, 1002));
        assert_eq!(owner.environment[1], ("A".into(), "b=c".into()));
        assert_eq!(parse_owner("1001\n"), None);
        assert_eq!(parse_owner("1001\n1002\nHOME\n"), None);
    }

    #[test]
    fn last_line_of_a_failure_is_reported() {
        let failed = output(Command::new("sh").args(["-c", "echo one; echo two; exit 1"]));
        assert_eq!(failed, Err(Failure::new("two")));
        let silent = output(Command::new("sh").args(["-c", "exit 1"]));
        assert!(silent.is_err_and(|failure| failure.to_string().contains("exit status: 1")));
    }
}
