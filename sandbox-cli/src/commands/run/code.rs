//! Code that is compiled, or written to a file, before it runs.

use std::io::Write as _;

use sandbox::{Error, ErrorKind, ExecResult, Preparation, ReadyCode, RunCode as _, SandboxHandle};

use super::program::Program;
use crate::command_error::CommandError;
use crate::output::Format;

/// Refuses a language that needs a newer version than the sandbox has.
pub async fn check_version(program: &Program, sandbox: &SandboxHandle) -> Result<(), CommandError> {
    if let Some(language) = program.language()
        && language.minimum.is_some()
    {
        sandbox.find_language(language).await?;
    }
    Ok(())
}

/// Prepares the program in a new folder below `folder`, if it needs that.
pub async fn prepared(
    program: &Program,
    sandbox: &SandboxHandle,
    folder: &str,
    format: Format,
) -> Result<Option<ReadyCode>, CommandError> {
    let Some(request) = program.code() else {
        return Ok(None);
    };
    match sandbox.prepare_code(&request.folder(folder)).await? {
        Preparation::Ready(ready) => Ok(Some(ready)),
        Preparation::CompileFailed(compiler) => Err(compile_error(&compiler, format)),
        other => Err(CommandError::argument(format!("{other:?}"))),
    }
}

/// The compiler's messages go to standard error, and in JSON into the error.
fn compile_error(compiler: &ExecResult, format: Format) -> CommandError {
    let messages = [&compiler.stdout.bytes, &compiler.stderr.bytes];
    let mut context = compiler.outcome.to_string();
    match format {
        Format::Text => {
            let mut stderr = std::io::stderr().lock();
            for message in messages {
                // If standard error is closed, the messages cannot be shown elsewhere.
                let _ = stderr.write_all(message);
            }
        }
        Format::Json => {
            for message in messages {
                context += &format!("\n{}", String::from_utf8_lossy(message).trim_end());
            }
        }
    }
    Error::new(ErrorKind::CompileFailed, "compile code", context).into()
}
