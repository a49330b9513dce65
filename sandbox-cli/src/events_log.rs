//! Events of the library on standard error.

use tracing_subscriber::EnvFilter;

use crate::command_error::CommandError;
use crate::output::has_colors;

/// The environment variable with a filter, such as `debug` or `sandbox_docker=trace`.
const VARIABLE: &str = "SANDBOX_LOG";

/// What `--verbose` shows: the events of this workspace, and the warnings of others.
const VERBOSE: &str = "warn,sandbox=debug";

/// Writes the events that the variable selects, or with `verbose` those of this workspace.
pub fn start(verbose: bool) -> Result<(), CommandError> {
    let variable = std::env::var_os(VARIABLE).filter(|filter| !filter.is_empty());
    let filter = match &variable {
        Some(filter) => filter.to_string_lossy(),
        None if verbose => VERBOSE.into(),
        None => return Ok(()),
    };
    let filter = EnvFilter::try_new(&*filter).map_err(|error| {
        CommandError::argument(format!("{VARIABLE}={filter}: {error}"))
            .with_fix("write a level like debug, or sandbox_docker=trace")
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(has_colors(&std::io::stderr()))
        .without_time()
        .init();
    Ok(())
}
