//! `sandbox why`: which rule of a policy decides.

use std::path::{Path, PathBuf};

use clap::Args;
use sandbox::CapabilityPolicy;
use sandbox::policy::Explanation;
use sandbox::spi::escape;
use serde::Serialize;

use crate::command_error::{CommandError, Outcome};
use crate::exit::Exit;
use crate::options::{PolicySource, in_file};
use crate::output::{Format, FormatOption, print, print_json};

const EXAMPLES: &str = "\
Examples:
  sandbox why --policy policy.toml example.org:443
  sandbox why --policy policy.toml ./data/input.csv

What contains a / is a path of the host; a host without a port is explained for 443 and 80.

Exit codes: 0 something is allowed; 3 everything is denied.";

/// The options of `why`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WhyArguments {
    /// Path of the host, or host with or without a port
    #[arg(value_name = "PATH|HOST[:PORT]")]
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
    let decisions = if is_path(&arguments.subject) {
        let path = Path::new(&arguments.subject);
        let absolute = std::path::absolute(path)
            .map_err(|error| CommandError::io(path.display().to_string(), &error))?;
        policy.explain_path(&absolute, real).to_vec()
    } else {
        policy.explain_host(&arguments.subject)?
    };
    match arguments.format.format {
        Format::Json => print_json(&WhyDocument {
            decisions: &decisions,
        })?,
        Format::Text => print(&decisions.iter().map(line).collect::<String>())?,
    }
    Ok(match decisions.iter().any(|decision| decision.allowed) {
        true => Exit::SUCCESS,
        false => Exit::WOULD_BE_REFUSED,
    })
}

fn is_path(subject: &str) -> bool {
    subject.contains('/') || matches!(subject, "." | "..")
}

/// The path without links. Of what does not exist, only the existing folders are resolved.
fn real(path: &Path) -> PathBuf {
    path.ancestors()
        .find_map(|folder| {
            let rest = path.strip_prefix(folder).ok()?;
            Some(folder.canonicalize().ok()?.join(rest))
        })
        .unwrap_or_else(|| path.to_owned())
}

fn line(decision: &Explanation) -> String {
    let Explanation {
        action,
        subject,
        allowed,
        rule,
        reason,
        ..
    } = decision;
    let verdict = if *allowed { "allowed" } else { "denied" };
    let rule = match rule {
        Some(rule) => format!(" ({rule})"),
        None => String::new(),
    };
    let line = escape(&format!("{action} {subject}: {verdict}: {reason}{rule}"));
    format!("{line}\n")
}
