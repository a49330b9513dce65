//! Refuses code that fails a scan, before anything is created.

use std::path::Path;

use sandbox::scan::ScanPolicy;

use super::program::Program;
use crate::command_error::CommandError;

/// Scans the program.
pub fn check(
    policy: &ScanPolicy,
    program: &Program,
    file: Option<&Path>,
) -> Result<(), CommandError> {
    let (Some(code), Some(language)) = (program.source(), program.language()) else {
        let message = "a scan needs FILE or -c CODE in a known language, and not a command";
        return Err(CommandError::argument(message)
            .with_fix("say its --language: `sandbox languages` lists them"));
    };
    let file = file.filter(|file| *file != Path::new("-"));
    let file = file.map_or("code".into(), |file| file.to_string_lossy());
    policy.scan(&language.name, code)?.check(&file)?;
    Ok(())
}
