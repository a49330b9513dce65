//! The `sandbox` command.

mod arguments;
mod command_error;
mod commands;
mod events_log;
mod exit;
#[cfg(test)]
mod help_tests;
mod mcp;
mod options;
mod output;
mod progress;
mod table;
mod user_config;

use std::ffi::OsString;
use std::io::Write as _;

use clap::builder::StyledStr;
use clap::{CommandFactory as _, FromArgMatches as _, Parser as _};

use arguments::{CliArguments, Command, FrequentArguments};
use command_error::{CommandError, Outcome};
use commands::end::EndMethod;
use exit::Exit;
use output::Format;
use user_config::UserConfig;

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let (format, outcome) = match parse(&arguments) {
        Err(ParseError::Config(failure)) => (Format::guess(&arguments), Err(failure)),
        Err(ParseError::Line(_)) if arguments.len() == 1 => (Format::Text, print_overview()),
        Ok((parsed, verbose)) => {
            let started = events_log::start(parsed.verbose || verbose);
            let format = parsed.command.format();
            (format, started.and_then(|()| dispatch(parsed.command)))
        }
        Err(ParseError::Line(error)) if !error.use_stderr() => (Format::Text, print_help(&error)),
        Err(ParseError::Line(error)) => (
            Format::guess(&arguments),
            Err(CommandError::usage(&error, &arguments)),
        ),
    };
    let exit = outcome.unwrap_or_else(|failure| failure.report(format));
    // Not a return, which would wait for a thread that is blocked on standard input.
    std::process::exit(exit.code().into());
}

/// Why a command line cannot be used.
enum ParseError {
    /// The user's configuration file is wrong.
    Config(CommandError),
    Line(clap::Error),
}

/// Reads the command line, with the defaults of the user's configuration. Also returns whether that
/// asks for events.
fn parse(arguments: &[OsString]) -> Result<(CliArguments, bool), ParseError> {
    let config = UserConfig::read().map_err(ParseError::Config)?;
    let verbose = config.verbose.unwrap_or(false);
    let is_frequent = matches!(arguments.get(1), Some(name) if name == "run" || name == "exec");
    // All commands are known where this one has an error or needs help.
    if is_frequent
        && config.changes_no_option()
        && let Ok(parsed) = FrequentArguments::try_parse_from(arguments)
    {
        return Ok((parsed.into(), verbose));
    }
    let command = config.apply(CliArguments::command());
    let parsed = command
        .try_get_matches_from(arguments)
        .and_then(|matches| CliArguments::from_arg_matches(&matches))
        .map_err(ParseError::Line)?;
    Ok((parsed, verbose))
}

fn dispatch(command: Command) -> Outcome {
    match command {
        Command::Run(arguments) => commands::run::run(&arguments),
        Command::Create(arguments) => commands::create::run(&arguments),
        Command::Exec(arguments) => commands::exec::run(&arguments),
        Command::Shell(arguments) => commands::exec::run_shell(arguments),
        Command::Cp(arguments) => commands::cp::run(&arguments),
        Command::Export(arguments) => commands::export::run(&arguments),
        Command::Ls(arguments) => commands::ls::run(&arguments),
        Command::Logs(arguments) => commands::logs::run(&arguments),
        Command::Stats(arguments) => commands::stats::run(&arguments),
        Command::Egress(arguments) => commands::egress::run(&arguments),
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
        Command::Mcp(arguments) => commands::mcp::run(&arguments),
        Command::Languages(arguments) => commands::languages::run(&arguments),
        Command::Scan(arguments) => commands::scan::run(&arguments),
        Command::Config(arguments) => commands::config::run(&arguments),
        Command::Completions(arguments) => commands::completions::run(&arguments),
        Command::Man(arguments) => commands::man::run(&arguments),
        Command::Version => {
            output::print(concat!("sandbox ", env!("CARGO_PKG_VERSION"), "\n"))?;
            Ok(Exit::SUCCESS)
        }
        Command::Policy(arguments) => commands::policy::run(&arguments.command),
    }
}

/// The help, for a command line without anything.
fn print_overview() -> Outcome {
    print_styled(&CliArguments::command().render_help())
}

fn print_help(help: &clap::Error) -> Outcome {
    print_styled(&help.render())
}

fn print_styled(text: &StyledStr) -> Outcome {
    let text = match output::has_colors(&std::io::stdout()) {
        true => text.ansi().to_string(),
        false => text.to_string(),
    };
    output::print(&text)?;
    Ok(Exit::SUCCESS)
}

/// Writes an error with the prefix `sandbox: `, which is red on a terminal, to standard error.
fn print_error(line: impl std::fmt::Display) {
    if !output::has_colors(&std::io::stderr()) {
        return print_status(line);
    }
    // If standard error is closed, the line cannot be reported elsewhere.
    let _ = writeln!(std::io::stderr(), "\x1b[1;31msandbox:\x1b[0m {line}");
}

/// Writes a line with the prefix `sandbox: ` to standard error.
fn print_status(line: impl std::fmt::Display) {
    // If standard error is closed, the line cannot be reported elsewhere.
    let _ = writeln!(std::io::stderr(), "sandbox: {line}");
}
