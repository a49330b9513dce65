//! `sandbox commit`: an image of a detached sandbox's files.

use clap::Args;

use super::image::tell;
use super::kept::TierOption;
use super::run::signals::Signals;
use crate::failure::{Failure, Outcome};
use crate::output::FormatOption;

const NOTES: &str = "\
The sandbox has to be created with --writable-root. What lies on a mount is not part of the image: the temporary
folders, a workspace or root of the host. The image is configured like the one that the sandbox was made of.";

/// The options of `commit`.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub struct CommitArguments {
    /// Name of the sandbox
    name: String,

    /// Name of the image: one that no image has
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
