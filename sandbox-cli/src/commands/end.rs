//! `sandbox stop`, `kill` and `rm`: the end of detached sandboxes. `sandbox prune`: what those that have ended left.

use clap::Args;
use sandbox::{CapabilityPolicy, ErrorKind, SandboxClient};

use super::kept::{Done, TierOption, keeping_tiers};
use crate::failure::{Failure, Outcome};
use crate::output::FormatOption;

/// The options of `stop`, `kill` and `rm`.
#[derive(Debug, Args)]
pub struct EndArguments {
    /// Names of the sandboxes
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    #[command(flatten)]
    tier: TierOption,

    #[command(flatten)]
    pub format: FormatOption,
}

/// How sandboxes are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Their programs first have the time to end by themselves.
    Stop,
    /// At once.
    Kill,
    /// At once, and what one that has ended has left is removed.
    Remove,
}

/// Runs `stop`, `kill` or `rm`.
pub fn run(arguments: &EndArguments, way: Way) -> Outcome {
    let format = arguments.format.format;
    super::block_on(async {
        let mut done = Done::default();
        for name in &arguments.names {
            done.add(format, name, end(&arguments.tier, name, way).await)?;
        }
        done.finish(format)
    })?
}

async fn end(tier: &TierOption, name: &str, way: Way) -> Result<(), Failure> {
    let client = tier.find(name).await?.client;
    match way {
        Way::Stop => client.get(name).await?.stop().await?,
        Way::Kill => client.get(name).await?.kill().await?,
        Way::Remove => client.remove(name).await?,
    }
    Ok(())
}

/// The options of `prune`.
#[derive(Debug, Args)]
pub struct PruneArguments {
    /// Only sandboxes of this tier
    #[arg(short, long, value_name = "TIER")]
    backend: Option<String>,

    #[command(flatten)]
    pub format: FormatOption,
}

/// Runs `prune`.
pub fn prune(arguments: &PruneArguments) -> Outcome {
    let format = arguments.format.format;
    let tiers = keeping_tiers(arguments.backend.as_deref())?;
    super::block_on(async {
        let mut done = Done::default();
        let mut failed = None;
        for tier in tiers {
            let client = SandboxClient::open(tier.tier, CapabilityPolicy::new())?;
            match client.prune().await {
                Ok(names) => {
                    for name in names {
                        done.add(format, &name, Ok(()))?;
                    }
                }
                Err(error) => {
                    // Without an engine there is nothing to remove on it, unless it was asked for.
                    let absent = arguments.backend.is_none()
                        && error.kind() == ErrorKind::SandboxUnavailable;
                    if !absent {
                        failed = Some(crate::exit::Exit::FAILED);
                    }
                    done.note(format, error.into());
                }
            }
        }
        let exit = done.finish(format)?;
        Ok(failed.unwrap_or(exit))
    })?
}
