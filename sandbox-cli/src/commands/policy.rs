//! `sandbox policy`: the schema of policy files, and what a policy file means.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use sandbox::policy::{PolicyFile, json_schema};
use sandbox::{Level, Plan, SandboxSpec};

use crate::command_error::{CommandError, Outcome};
use crate::exit::Exit;
use crate::options::{PolicySource, in_file};
use crate::output::print;
use crate::table::table;

/// The options of `policy`.
#[derive(Debug, Args)]
pub struct PolicyArguments {
    /// What to show
    #[command(subcommand)]
    pub command: PolicyCommand,
}

/// The subcommands of `policy`.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Print the JSON schema of policy files
    Schema,
    /// Print all fields of a policy file, including those of its preset, and what it demands
    Show {
        /// Policy file: JSON if its name ends in .json, otherwise TOML
        file: PathBuf,
    },
}

/// Runs the subcommand.
pub fn run(command: &PolicyCommand) -> Outcome {
    match command {
        PolicyCommand::Schema => print(&format!("{:#}\n", json_schema()))?,
        PolicyCommand::Show { file } => print(&show(file)?)?,
    }
    Ok(Exit::SUCCESS)
}

fn show(path: &Path) -> Result<String, CommandError> {
    // The policy is only printed.
    let policy = PolicySource::read(path, true)?
        .file
        .resolve()
        .map_err(|error| in_file(path, &error))?;
    let plan = Plan::resolve(&SandboxSpec::new("policy"), &policy)?;
    let fields = toml::to_string(&PolicyFile::from(&policy)).map_err(|error| {
        CommandError::argument(format!(
            "{}: cannot be written as TOML: {error}",
            path.display()
        ))
    })?;
    let rows = plan.demands.iter().map(|demand| {
        let level = match demand.level {
            Level::Required => "required",
            Level::Wanted => "wanted",
        };
        vec![
            "#".to_owned(),
            demand.capability.to_string(),
            level.to_owned(),
            demand.value.clone(),
        ]
    });
    let demands = table(&rows.collect::<Vec<_>>());
    Ok(format!("{fields}\n# What it demands:\n{demands}"))
}
