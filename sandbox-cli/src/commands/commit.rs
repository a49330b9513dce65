//! `sandbox commit`: an image of a detached sandbox's files.

use clap::Args;

use super::image::tell;
use super::kept::TierOption;
use super::run::signals::Signals;
use crate::failure::{Failure, Outcome};
use crate::output::FormatOption;

const NOTES: &str = "\
The sandbox must have been created with --writable-root. The image does not contain mounts: temporary
folders, the workspace, or folders of the host. It keeps the configuration of the original image.";

/// The options of `commit`.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub struct CommitArguments {
    /// Name of the sandbox
    name: String,

    /// Name of the new image, not yet in use
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
            let place = arguments.tier.find(&arguments.name).await?;
            let sandbox = place.client.get(&arguments.name).await?;
            let image = sandbox.commit(&arguments.image).await?;
            tell(&[image], arguments.format.format)
        };
        tokio::select! {
            outcome = work => outcome,
            signal = signals.next() => Err(Failure::interrupted(signal)),
        }
    })?
}
