//! The command line.

use std::ffi::OsString;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::commands::check::CheckArguments;
use crate::commands::commit::CommitArguments;
use crate::commands::completions::CompletionsArguments;
use crate::commands::config::ConfigArguments;
use crate::commands::conformance::ConformanceArguments;
use crate::commands::cp::CpArguments;
use crate::commands::create::CreateArguments;
use crate::commands::doctor::DoctorArguments;
use crate::commands::egress::EgressArguments;
use crate::commands::end::{EndArguments, PruneArguments};
use crate::commands::exec::{ExecArguments, ShellArguments};
use crate::commands::export::ExportArguments;
use crate::commands::image::ImageArguments;
use crate::commands::languages::LanguagesArguments;
use crate::commands::logs::LogsArguments;
use crate::commands::ls::LsArguments;
use crate::commands::man::ManArguments;
use crate::commands::matrix::MatrixArguments;
use crate::commands::mcp::McpArguments;
use crate::commands::policy::PolicyArguments;
use crate::commands::run::RunArguments;
use crate::commands::scan::ScanArguments;
use crate::commands::stats::StatsArguments;
use crate::commands::why::WhyArguments;
use crate::output::Format;

/// Run untrusted code under a policy that is enforced or refused.
#[derive(Debug, Parser)]
#[command(name = "sandbox", version, max_term_width = 100)]
pub struct CliArguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// Write events of the library to standard error; SANDBOX_LOG selects them, such as debug or
    /// sandbox_docker=trace
    #[arg(long, global = true)]
    pub verbose: bool,
}

/// The commands that scripts and programs start many times, without the others.
///
/// clap builds the options of every command that it knows, which takes longer than the parsing.
#[derive(Debug, Parser)]
#[command(name = "sandbox")]
pub struct FrequentArguments {
    #[command(subcommand)]
    command: FrequentCommand,
    #[arg(long, global = true)]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
enum FrequentCommand {
    Run(Box<RunArguments>),
    Exec(Box<ExecArguments>),
}

impl From<FrequentArguments> for CliArguments {
    fn from(arguments: FrequentArguments) -> Self {
        let FrequentArguments { command, verbose } = arguments;
        let command = match command {
            FrequentCommand::Run(arguments) => Command::Run(arguments),
            FrequentCommand::Exec(arguments) => Command::Exec(*arguments),
        };
        Self { command, verbose }
    }
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a file, code or a command in a new sandbox
    Run(Box<RunArguments>),
    /// Create a detached sandbox, which keeps running after this command
    Create(Box<CreateArguments>),
    /// Run a command in a detached sandbox
    Exec(ExecArguments),
    /// Open a shell in a detached sandbox, on this terminal
    Shell(ShellArguments),
    /// Copy files and folders between the host and a detached sandbox
    Cp(CpArguments),
    /// Copy the artifacts of a detached sandbox to the host
    Export(ExportArguments),
    /// List detached sandboxes
    Ls(LsArguments),
    /// Show the output of the commands in a detached sandbox
    Logs(LogsArguments),
    /// Show what a detached sandbox uses: processor time, memory, processes, disk, network
    Stats(StatsArguments),
    /// Show or replace the egress rules of a detached sandbox
    Egress(EgressArguments),
    /// Stop detached sandboxes: send SIGTERM, then SIGKILL
    Stop(EndArguments),
    /// Kill detached sandboxes immediately
    Kill(EndArguments),
    /// Kill detached sandboxes and remove what they left behind
    Rm(EndArguments),
    /// Remove what ended sandboxes left behind
    Prune(PruneArguments),
    /// Create an image from a detached sandbox's files
    Commit(CommitArguments),
    /// Manage an engine's images
    Image(ImageArguments),
    /// Check whether this host can enforce a policy (exit code 3 if not)
    Check(Box<CheckArguments>),
    /// Name the rule of a policy that decides about a path or a host (exit code 3 if it is denied)
    Why(WhyArguments),
    /// Diagnose what this host can enforce, and how to fix what it cannot
    Doctor(DoctorArguments),
    /// Show what each tier enforces
    Matrix(MatrixArguments),
    /// Test what each tier enforces, with sandbox-conformance
    Conformance(ConformanceArguments),
    /// List the languages of code, and which of them a tier has
    Languages(LanguagesArguments),
    /// Serve tools that run code to an MCP client, such as an assistant or an editor
    Mcp(Box<McpArguments>),
    /// Scan code for what it seems to do, without running it (exit code 1 if it fails)
    Scan(Box<ScanArguments>),
    /// Print the schema of policy files, or explain a policy file
    Policy(PolicyArguments),
    /// Show the user's configuration, with the defaults
    Config(ConfigArguments),
    /// Print completions for a shell
    Completions(CompletionsArguments),
    /// Print a manual page
    Man(ManArguments),
    /// Print the version, as --version does
    Version,
}

impl Command {
    /// The output format.
    pub fn format(&self) -> Format {
        match self {
            Self::Run(arguments) => arguments.format.format.document(),
            Self::Create(arguments) => arguments.format.format,
            Self::Exec(arguments) => arguments.format.format.document(),
            Self::Cp(arguments) => arguments.format.format,
            Self::Export(arguments) => arguments.format.format,
            Self::Ls(arguments) => arguments.format.format,
            Self::Logs(arguments) => arguments.format.format,
            Self::Stats(arguments) => arguments.format.format,
            Self::Egress(arguments) => arguments.format.format,
            Self::Stop(arguments) | Self::Kill(arguments) | Self::Rm(arguments) => {
                arguments.format.format
            }
            Self::Prune(arguments) => arguments.format.format,
            Self::Commit(arguments) => arguments.format.format,
            Self::Image(arguments) => arguments.format(),
            Self::Check(arguments) => arguments.format.format,
            Self::Why(arguments) => arguments.format.format,
            Self::Doctor(arguments) => arguments.format.format,
            Self::Scan(arguments) => arguments.format.document(),
            Self::Languages(arguments) => arguments.format.format,
            Self::Matrix(arguments) => arguments.format.format,
            Self::Config(arguments) => arguments.format.format,
            Self::Shell(_)
            | Self::Mcp(_)
            | Self::Conformance(_)
            | Self::Policy(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Version => Format::Text,
        }
    }
}

/// The subcommand in a command line, with its own subcommand: `image build`.
pub fn subcommand(arguments: &[OsString]) -> Option<String> {
    let mut command = &CliArguments::command();
    let mut names = Vec::new();
    for name in arguments.iter().skip(1).map_while(|name| name.to_str()) {
        let Some(next) = command.find_subcommand(name) else {
            break;
        };
        names.push(name);
        command = next;
    }
    (!names.is_empty()).then(|| names.join(" "))
}
