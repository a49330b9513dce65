//! The `sandbox` command.

mod arguments;
mod command_error;
mod commands;
mod exit;
#[cfg(test)]
mod help_tests;
mod options;
mod output;
mod progress;
mod table;

use std::ffi::OsString;
use std::io::Write as _;

use clap::Parser as _;

use arguments::{CliArguments, Command};
use command_error::{CommandError, Outcome};
use commands::end::EndMethod;
use exit::Exit;
use output::Format;

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let (format, outcome) = match CliArguments::try_parse_from(&arguments) {
        Ok(parsed) => (parsed.command.format(), dispatch(parsed.command)),
        Err(error) if !error.use_stderr() => (Format::Text, print_help(&error)),
        Err(error) => (
            Format::guess(&arguments),
            Err(CommandError::usage(
                &error,
                arguments::subcommand(&arguments).as_deref(),
            )),
        ),
    };
    let exit = outcome.unwrap_or_else(|failure| failure.report(format));
    // Not a return, which would wait for a thread that is blocked on standard input.
    std::process::exit(exit.code().into());
}

fn dispatch(command: Command) -> Outcome {
    match command {
        Command::Run(arguments) => commands::run::run(&arguments),
        Command::Create(arguments) => commands::create::run(&arguments),
        Command::Exec(arguments) => commands::exec::run(&arguments),
        Command::Cp(arguments) => commands::cp::run(&arguments),
        Command::Ls(arguments) => commands::ls::run(&arguments),
        Command::Logs(arguments) => commands::logs::run(&arguments),
        Command::Stop(arguments) => commands::end::run(&arguments, EndMethod::Stop),
        Command::Kill(arguments) => commands::end::run(&arguments, EndMethod::Kill),
        Command::Rm(arguments) => commands::end::run(&arguments, EndMethod::Remove),
        Command::Prune(arguments) => commands::end::prune(&arguments),
        Command::Check(arguments) => commands::check::run(&arguments),
        Command::Why(arguments) => commands::why::run(&arguments),
        Command::Doctor(arguments) => commands::doctor::run(&arguments),
        Command::Matrix(arguments) => commands::matrix::run(&arguments),
        Command::Conformance(arguments) => commands::conformance::run(&arguments),
        Command::Image(arguments) => commands::image::run(&arguments),
        Command::Commit(arguments) => commands::commit::run(&arguments),
        Command::Policy(arguments) => commands::policy::run(&arguments.command),
    }
}

fn print_help(help: &clap::Error) -> Outcome {
    output::print(&help.render().to_string())?;
    Ok(Exit::SUCCESS)
}

/// Writes a line with the prefix `sandbox: ` to standard error.
fn print_status(line: impl std::fmt::Display) {
    // If standard error is closed, the line cannot be reported elsewhere.
    let _ = writeln!(std::io::stderr(), "sandbox: {line}");
}
