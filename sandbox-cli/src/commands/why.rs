//! `sandbox why`: which rule of a policy decides.

use std::path::PathBuf;

use clap::Args;
use sandbox::CapabilityPolicy;
use sandbox::policy::Explanation;
use sandbox_host::explain;
use serde::Serialize;

use crate::command_error::Outcome;
use crate::exit::Exit;
use crate::options::{PolicySource, in_file};
use crate::output::{Format, FormatOption, print, print_json};

const EXAMPLES: &str = "\
Examples:
  sandbox why --policy policy.toml example.org:443
  sandbox why --policy policy.toml ./data/input.csv
  sandbox why --policy policy.toml 'POST https://example.org/v1'

What contains :// is a request, and any other / makes it a path of the host. A host without a port
is explained for 443 and 80.

Exit codes: 0 something is allowed; 3 everything is denied.";

/// The options of `why`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WhyArguments {
    /// Path of the host, host with or without a port, or HTTP request
    #[arg(value_name = "PATH|HOST[:PORT]|[METHOD ]URL")]
    subject: String,

    /// Policy file: JSON if its name ends in .json, otherwise TOML [default: the policy of a run
    /// without options]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,

    #[command(flatten)]
    pub format: FormatOption,
}

#[derive(Serialize)]
struct WhyDocument<'a> {
    decisions: &'a [Explanation],
}

/// Runs the subcommand.
pub fn run(arguments: &WhyArguments) -> Outcome {
    let policy = match &arguments.policy {
        None => CapabilityPolicy::new(),
        // The policy only answers a question.
        Some(path) => {
            let policy = PolicySource::read(path, true)?.file.resolve();
            policy.map_err(|error| in_file(path, &error))?
        }
    };
    let decisions = explain(&policy, &arguments.subject)?;
    match arguments.format.format {
        Format::Json => print_json(&WhyDocument {
            decisions: &decisions,
        })?,
        Format::Text => {
            let lines = decisions.iter().map(|decision| format!("{decision}\n"));
            print(&lines.collect::<String>())?;
        }
    }
    Ok(match decisions.iter().any(|decision| decision.allowed) {
        true => Exit::SUCCESS,
        false => Exit::WOULD_BE_REFUSED,
    })
}
