//! `sandbox completions`: completions for a shell.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::arguments::CliArguments;
use crate::command_error::Outcome;
use crate::exit::Exit;
use crate::output::print;

const NOTES: &str = "\
Examples:
  source <(sandbox completions bash)
  sandbox completions zsh > ~/.zfunc/_sandbox
  sandbox completions fish > ~/.config/fish/completions/sandbox.fish";

/// The options of `completions`.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub struct CompletionsArguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Runs the subcommand.
pub fn run(arguments: &CompletionsArguments) -> Outcome {
    let mut script = Vec::new();
    let mut command = CliArguments::command();
    clap_complete::generate(arguments.shell, &mut command, "sandbox", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::SUCCESS)
}
