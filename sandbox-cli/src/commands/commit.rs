//! `sandbox commit`: an image of a detached sandbox's files.

use clap::Args;

use super::detached::TierOption;
use super::image::print_ids;
use super::run::signals::Signals;
use crate::command_error::{CommandError, Outcome};
use crate::output::FormatOption;

const NOTES: &str = "\
The sandbox must have been created with --writable-root. The image does not contain mounts:
temporary folders, the workspace, or folders of the host. It keeps the configuration of the
original image.";

/// The options of `commit`.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub struct CommitArguments {
    /// Name of the sandbox
    name: String,

    /// Unused name for the new image
    #[arg(value_name = "IMAGE")]
    image: String,

    #[command(flatten)]
    tier: TierOption,

    #[command(flatten)]
    pub format: FormatOption,
}

/// Runs the subcommand.
pub fn run(arguments: &CommitArguments) -> Outcome {
    super::block_on(async {
        let mut signals = Signals::listen()?;
        let work = async {
            let (_located, sandbox) = arguments.tier.get(&arguments.name, None).await?;
            let image = sandbox.commit(&arguments.image).await?;
            print_ids(&[image], arguments.format.format)
        };
        tokio::select! {
            outcome = work => outcome,
            signal = signals.next() => Err(CommandError::interrupted(signal)),
        }
    })?
}
