//! `sandbox stop`, `kill`, `rm` and `prune`.

use clap::Args;
use sandbox::{CapabilityPolicy, ErrorKind, SandboxClient};

use super::batch::BatchReport;
use super::detached::{TierOption, detached_tiers, unanswered};
use crate::command_error::{CommandError, Outcome};
use crate::output::{Format, FormatOption};
use crate::print_status;

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

/// How a sandbox is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndMethod {
    /// Send SIGTERM to its programs first.
    Stop,
    /// Kill it immediately.
    Kill,
    /// Kill it, or remove what it left behind if it has ended.
    Remove,
}

/// Runs `stop`, `kill` or `rm`.
pub fn run(arguments: &EndArguments, method: EndMethod) -> Outcome {
    let format = arguments.format.format;
    super::block_on(async {
        let mut report = BatchReport::default();
        for name in &arguments.names {
            let ended = match end(&arguments.tier, name, method).await {
                // As after `stop`, which leaves nothing behind.
                Err(error) if method == EndMethod::Remove && error.is_absent() => {
                    if format == Format::Json {
                        Ok(())
                    } else {
                        print_status(format_args!("no sandbox {name:?}: nothing to remove"));
                        continue;
                    }
                }
                ended => ended,
            };
            report.add(format, name, ended)?;
        }
        report.finish(format)
    })?
}

async fn end(tier: &TierOption, name: &str, method: EndMethod) -> Result<(), CommandError> {
    if method == EndMethod::Remove {
        return tier.remove(name).await;
    }
    let (_located, sandbox) = tier.get(name, None).await?;
    match method {
        EndMethod::Stop => sandbox.stop().await?,
        EndMethod::Kill | EndMethod::Remove => sandbox.kill().await?,
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
    let tiers = detached_tiers(arguments.backend.as_deref())?;
    super::block_on(async {
        let mut report = BatchReport::default();
        let mut failed = None;
        for tier in tiers {
            let client = SandboxClient::open(tier.tier, CapabilityPolicy::new())?;
            match client.prune().await {
                Ok(names) => {
                    for name in names {
                        report.add(format, &name, Ok(()))?;
                    }
                }
                Err(error) => {
                    // An unavailable engine is a failure only if `--backend` names it.
                    let is_named = arguments.backend.is_some();
                    if is_named || error.kind() != ErrorKind::SandboxUnavailable {
                        failed = Some(crate::exit::Exit::FAILED);
                    }
                    let reported = match is_named {
                        true => Some(error),
                        false => unanswered(&client, error),
                    };
                    if let Some(error) = reported {
                        report.add_tier_error(format, error.into());
                    }
                }
            }
        }
        let exit = report.finish(format)?;
        Ok(failed.unwrap_or(exit))
    })?
}
