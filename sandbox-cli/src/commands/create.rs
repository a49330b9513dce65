//! `sandbox create`: a detached sandbox.

use std::time::{Duration, SystemTime};

use clap::Args;
use sandbox::registry::{self, Registration};
use sandbox::spi::escape;
use sandbox::{SandboxClient, SandboxHandle};
use serde::Serialize;

use super::audit::{AuditOption, audited};
use super::carrier;
use super::detached::TierOption;
use super::run::document::{EnforcementEntry, enforcement};
use super::run::enforcement_line::enforcement_line;
use super::run::signals::Signals;
use crate::command_error::{CommandError, Outcome};
use crate::exit::Exit;
use crate::options::{PolicyOptions, duration};
use crate::output::{Format, FormatOption, json, print};
use crate::print_status;
use crate::progress::Progress;

const EXAMPLES: &str = "\
Examples:
  sandbox create --name lab --ttl 10m --memory 256MiB
  sandbox exec lab -- python3 -c 'print(6 * 7)'
  sandbox cp lab:/workspace/result.csv .
  sandbox rm lab

The sandbox runs until its lifetime ends, or until stop, kill or rm ends it. Its policy applies
to every later command. With --allow-host, a process in the background makes its connections:
`sandbox egress` shows and replaces its rules.

Exit codes: 0 created; 125 refused, setup failed, or the name is in use.";

/// The options of `create`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CreateArguments {
    /// Name of the sandbox: 1 to 63 of a-z, 0-9, '-', '_' and '.' [default: a generated name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Lifetime, such as 10m, 2h or a number of seconds [default: 1h]
    #[arg(long, alias = "lifetime", value_name = "TIME", value_parser = duration)]
    ttl: Option<Duration>,

    /// Print only warnings and errors
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    audit: AuditOption,

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
    let audit = arguments.audit.open()?;
    let client = audited(client, audit.as_ref());
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
        let outcome = match created {
            Ok(sandbox) => arguments.finish(sandbox, &client, tier).await,
            Err(error) => Err(error),
        };
        super::settle(&client).await;
        outcome
    })?
}

/// What the command prints.
#[derive(Default)]
struct Printed {
    output: String,
    /// Lines on standard error.
    status: Vec<String>,
}

impl CreateArguments {
    /// Leaves the sandbox to itself, and its connections to a carrier.
    async fn finish(
        &self,
        sandbox: SandboxHandle,
        client: &SandboxClient,
        tier: &Registration,
    ) -> Outcome {
        let printed = self.result(&sandbox, tier.backend)?;
        let name = sandbox.name().to_owned();
        // This process carries the connections so far, if there are rules.
        let is_carried = sandbox.egress_rules().await.is_ok();
        drop(sandbox);
        if is_carried {
            let option = TierOption::default();
            let started = carrier::start(&name, tier.tier, &option, &self.audit, None);
            if let Err(error) = started {
                // It would be of no use, and nobody knows of it.
                if let Err(left) = client.remove(&name).await {
                    print_status(format_args!(
                        "warning: the sandbox {name:?} is left: {left}"
                    ));
                }
                return Err(error);
            }
        }
        print(&printed.output)?;
        printed.status.iter().for_each(print_status);
        Ok(Exit::SUCCESS)
    }

    fn result(&self, sandbox: &SandboxHandle, backend: &str) -> Result<Printed, CommandError> {
        let mut printed = Printed::default();
        match self.format.format {
            Format::Json => {
                let lifetime = sandbox.plan().lifetime;
                let expires = lifetime.and_then(|lifetime| SystemTime::now().checked_add(lifetime));
                printed.output = json(&CreateDocument {
                    name: sandbox.name(),
                    backend,
                    tier: sandbox.tier(),
                    expires: expires.map(super::ls::time),
                    enforcement: enforcement(sandbox),
                    notes: sandbox.enforcement().notes(),
                })?;
            }
            Format::Text => {
                printed.output = format!("{}\n", sandbox.name());
                let report = sandbox.enforcement();
                if !self.quiet {
                    let network = &sandbox.plan().network;
                    let line = enforcement_line(sandbox.tier(), report, network);
                    printed.status.push(line);
                }
                // A warning, which is printed even with --quiet.
                let notes = report.notes().iter().map(|note| escape(note));
                printed.status.extend(notes);
            }
        }
        Ok(printed)
    }
}
