//! `sandbox export`: the artifacts of a detached sandbox.

use std::path::{Path, PathBuf};

use clap::Args;
use sandbox::{Artifact, SandboxHandle, SkippedArtifact};
use serde::Serialize;

use super::audit::AuditOption;
use super::detached::TierOption;
use super::run::output_folder::OutputFolder;
use super::run::signals::Signals;
use super::run::summary::{artifact, skipped};
use crate::command_error::{CommandError, Outcome};
use crate::exit::Exit;
use crate::output::{Format, FormatOption, print_json};
use crate::print_status;

const NOTES: &str = "\
Copies what matches the --artifact paths that the sandbox was created with. `sandbox cp` copies any
other file. Exit codes: 0 exported; 125 something was skipped, or no such sandbox.";

/// The options of `export`.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub struct ExportArguments {
    /// Name of the sandbox
    name: String,

    /// Host folder for the artifacts; existing files are kept, and new ones get a number
    #[arg(long, value_name = "DIR", default_value = "artifacts")]
    out: PathBuf,

    #[command(flatten)]
    tier: TierOption,

    #[command(flatten)]
    audit: AuditOption,

    #[command(flatten)]
    pub format: FormatOption,
}

#[derive(Serialize)]
struct ExportDocument<'a> {
    artifacts: &'a [Artifact],
    skipped_artifacts: &'a [SkippedArtifact],
}

/// Runs the subcommand.
pub fn run(arguments: &ExportArguments) -> Outcome {
    super::block_on(async {
        let mut signals = Signals::listen()?;
        let (name, audit) = (&arguments.name, &arguments.audit);
        let work = super::in_sandbox(&arguments.tier, name, audit, async |sandbox, _| {
            arguments.export(sandbox).await
        });
        tokio::select! {
            outcome = work => outcome,
            signal = signals.next() => Err(CommandError::interrupted(signal)),
        }
    })?
}

impl ExportArguments {
    async fn export(&self, sandbox: &SandboxHandle) -> Outcome {
        let plan = sandbox.plan();
        if plan.export_paths.is_empty() {
            let why = format!("the sandbox {:?} exports nothing", self.name);
            return Err(CommandError::argument(why)
                .with_fix("create it with --artifact PATH, or copy files with `sandbox cp`"));
        }
        let writable = plan.writable_sources().map(Path::to_owned);
        let writable = writable.collect::<Vec<_>>();
        let output = OutputFolder::prepare(Some(&self.out), &writable, plan.follow_links)?;
        let export = sandbox.export(output.path()).await?;
        match self.format.format {
            Format::Json => print_json(&ExportDocument {
                artifacts: &export.artifacts,
                skipped_artifacts: &export.skipped,
            })?,
            Format::Text => {
                export.artifacts.iter().map(artifact).for_each(print_status);
                export.skipped.iter().map(skipped).for_each(print_status);
            }
        }
        Ok(match export.skipped.is_empty() {
            true => Exit::SUCCESS,
            false => Exit::FAILED,
        })
    }
}
