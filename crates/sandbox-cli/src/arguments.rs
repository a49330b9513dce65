//! What can be written after `sandbox`.

use clap::{Parser, Subcommand};

use crate::commands::check::CheckArguments;
use crate::commands::doctor::DoctorArguments;
use crate::commands::matrix::MatrixArguments;
use crate::commands::policy::PolicyArguments;
use crate::commands::run::RunArguments;
use crate::output::Format;

/// Run code you do not trust, under a policy that is enforced or refused.
#[derive(Debug, Parser)]
#[command(name = "sandbox", version, max_term_width = 100)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a file, a piece of code or a command in a sandbox of its own
    Run(Box<RunArguments>),
    /// Tell whether a policy would be enforced on this host (exit code 3 where it would be refused)
    Check(Box<CheckArguments>),
    /// Tell what this host can enforce, and how to get what is missing
    Doctor(DoctorArguments),
    /// Show what every linked tier enforces
    Matrix(MatrixArguments),
    /// Show a policy file's schema, or what a policy file means
    Policy(PolicyArguments),
}

impl Command {
    /// How the answer is to be written.
    pub fn format(&self) -> Format {
        match self {
            Self::Run(arguments) => arguments.format,
            Self::Check(arguments) => arguments.format,
            Self::Doctor(arguments) => arguments.format,
            Self::Matrix(arguments) => arguments.format,
            Self::Policy(_) => Format::Text,
        }
    }
}
