//! `sandbox create`: a detached sandbox.

use std::time::{Duration, SystemTime};

use clap::Args;
use sandbox::spi::escape;
use sandbox::{SandboxClient, SandboxHandle, registry};
use serde::Serialize;

use super::run::document::{EnforcementEntry, enforcement};
use super::run::enforcement_line::enforcement_line;
use super::run::signals::Signals;
use crate::command_error::{CommandError, Outcome};
use crate::exit::Exit;
use crate::options::{PolicyOptions, duration};
use crate::output::{Format, FormatOption, print, print_json};
use crate::print_status;
use crate::progress::Progress;

const EXAMPLES: &str = "\
Examples:
  sandbox create --name lab --ttl 10m --memory 256MiB
  sandbox exec lab -- python3 -c 'print(6 * 7)'
  sandbox cp lab:/workspace/result.csv .
  sandbox rm lab

The sandbox runs until its lifetime ends, or until stop, kill or rm ends it. Its policy applies
to every later command.

Exit codes: 0 created; 125 refused, setup failed, or the name is in use.";

/// The options of `create`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CreateArguments {
    /// Name of the sandbox: 1 to 63 of a-z, 0-9, '-', '_' and '.' [default: a generated name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Lifetime, such as 10m, 2h or a number of seconds [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    ttl: Option<Duration>,

    /// Print only warnings and errors
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    pub format: FormatOption,

    #[command(flatten)]
    policy: PolicyOptions,
}

#[derive(Serialize)]
struct CreateDocument<'a> {
    name: &'a str,
    backend: &'a str,
    tier: &'a str,
    /// When its time to live is over.
    expires: Option<String>,
    enforcement: Vec<EnforcementEntry<'a>>,
    /// Notes of the engine.
    notes: &'a [String],
}

/// Runs the subcommand.
pub fn run(arguments: &CreateArguments) -> Outcome {
    let tier = registry::tier(&arguments.policy.backend)?;
    arguments.policy.secrets.check_only_names()?;
    let mut request = arguments.policy.resolve()?;
    let spec = &mut request.spec;
    if let Some(name) = &arguments.name {
        spec.name.clone_from(name);
    }
    spec.lifetime = arguments.ttl;
    spec.detached = true;
    spec.validate()?;
    let client = SandboxClient::open_with(tier.tier, request.policy, &request.settings)?;
    if !tier.applies_policy {
        print_status(format_args!(
            "warning: {} applies no policy: nothing is enforced",
            tier.tier
        ));
    }
    super::block_on(async {
        let mut signals = Signals::listen()?;
        let mut progress = Progress::new(arguments.quiet, arguments.format.format);
        let take = &mut |event: &_| progress.take(event);
        let created = tokio::select! {
            sandbox = client.create_with_progress(&request.spec, take) => sandbox.map_err(CommandError::from),
            signal = signals.next() => Err(CommandError::interrupted(signal)),
        };
        let outcome = created.and_then(|sandbox| arguments.print_result(&sandbox, tier.backend));
        super::settle(&client).await;
        outcome
    })?
}

impl CreateArguments {
    fn print_result(&self, sandbox: &SandboxHandle, backend: &str) -> Outcome {
        match self.format.format {
            Format::Json => {
                let lifetime = sandbox.plan().lifetime;
                let expires = lifetime.and_then(|lifetime| SystemTime::now().checked_add(lifetime));
                print_json(&CreateDocument {
                    name: sandbox.name(),
                    backend,
                    tier: sandbox.tier(),
                    expires: expires.map(super::ls::time),
                    enforcement: enforcement(sandbox),
                    notes: sandbox.enforcement().notes(),
                })?;
            }
            Format::Text => {
                print(&format!("{}\n", sandbox.name()))?;
                let report = sandbox.enforcement();
                if !self.quiet {
                    let network = &sandbox.plan().network;
                    print_status(enforcement_line(sandbox.tier(), report, network));
                }
                // A warning, which is printed even with --quiet.
                report
                    .notes()
                    .iter()
                    .for_each(|note| print_status(escape(note)));
            }
        }
        Ok(Exit::SUCCESS)
    }
}
