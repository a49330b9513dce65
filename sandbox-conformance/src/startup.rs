//! The start of a measuring process.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::egress_server::certificate;
use crate::host_fixture::{SECRET_VARIABLE, package_variables, random_name};
use crate::name_server::name_server_variable;
use crate::probe::ProbeError;

/// Executes this program again, once, with a secret in its environment that no sandbox may see and
/// with the variables of the package fixture and of the suite's servers. Call it before
/// anything else.
///
/// # Errors
///
/// If the program cannot be executed again.
pub fn reexec_with_secret() -> Result<(), ProbeError> {
    if std::env::var_os(SECRET_VARIABLE).is_some() {
        return Ok(());
    }
    let error = Command::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .env(SECRET_VARIABLE, format!("secret-{}", random_name()))
        .envs(package_variables())
        .envs([name_server_variable()])
        .envs([certificate::variable()])
        .exec();
    Err(ProbeError::new(format!(
        "cannot start this program again with {SECRET_VARIABLE} set: {error}"
    )))
}
