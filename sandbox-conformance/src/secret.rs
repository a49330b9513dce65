//! The start of a process that measures.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::grounds::{SECRET_VARIABLE, package_variables, random_name};
use crate::probe::Trouble;

/// Becomes this program once more, unless it has done so already: with a secret in its environment that no sandbox may see, and
/// the way to the suite's package. Call it before anything else.
///
/// # Errors
///
/// When the program cannot be started again.
pub fn start_with_one() -> Result<(), Trouble> {
    if std::env::var_os(SECRET_VARIABLE).is_some() {
        return Ok(());
    }
    let error = Command::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .env(SECRET_VARIABLE, format!("secret-{}", random_name()))
        .envs(package_variables())
        .exec();
    Err(Trouble::new(format!(
        "start again with {SECRET_VARIABLE}: {error}"
    )))
}
