//! `sandbox egress`: the connections of a detached sandbox.

use clap::Args;
use sandbox::policy::{EgressRules, NetworkPolicy, NetworkRule};
use sandbox::{ErrorKind, SandboxHandle};
use serde::Serialize;

use super::audit::AuditOption;
use super::carrier;
use super::detached::TierOption;
use super::run::signals::Signals;
use crate::command_error::{CommandError, Outcome};
use crate::exit::Exit;
use crate::options::network_rule;
use crate::output::{Format, FormatOption, print, print_json};

const EXAMPLES: &str = "\
Examples:
  sandbox egress lab                                       show the rules in force
  sandbox egress lab example.org:443 '*.example.net:443'   replace them
  sandbox egress lab --none                                deny everything
  sandbox egress lab --carry                               start its carrier again

A process of this user, the carrier, makes the connections of a detached sandbox. `sandbox create`
starts it, and it ends with the sandbox. Without a carrier, every connection is refused. New rules
are in force when the command returns: it resets the connections that they do not allow. They can
allow at most what the policy allowed when the sandbox was created.

Exit codes: 0 done; 125 refused, no such sandbox, or it has no rules.";

/// The options of `egress`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct EgressArguments {
    /// Name of the sandbox
    name: String,

    /// New rules, as those of --allow-host
    #[arg(value_name = "RULE", value_parser = network_rule)]
    rules: Vec<NetworkRule>,

    /// Deny every connection
    #[arg(long, conflicts_with = "rules")]
    none: bool,

    /// Start a carrier in the background, if there is none
    #[arg(long)]
    carry: bool,

    /// Carry the connections in this process until the sandbox ends, for a service manager
    #[arg(long, conflicts_with = "carry")]
    foreground: bool,

    #[command(flatten)]
    tier: TierOption,

    #[command(flatten)]
    audit: AuditOption,

    #[command(flatten)]
    pub format: FormatOption,
}

#[derive(Serialize)]
struct EgressDocument {
    /// Whether a process carries the connections.
    carried: bool,
    /// The rules in force; empty if everything is denied.
    rules: Vec<String>,
}

/// Runs the subcommand.
pub fn run(arguments: &EgressArguments) -> Outcome {
    if arguments.foreground {
        return super::block_on(arguments.carry_here())?;
    }
    super::block_on(async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            outcome = arguments.change_and_show() => outcome,
            signal = signals.next() => Err(CommandError::interrupted(signal)),
        }
    })?
}

impl EgressArguments {
    /// The new rules, if any are given.
    fn new_rules(&self) -> Result<Option<EgressRules>, CommandError> {
        let rules = EgressRules::new(self.rules.clone());
        rules.validate()?;
        Ok((self.none || !rules.is_empty()).then_some(rules))
    }

    async fn change_and_show(&self) -> Outcome {
        let new = self.new_rules()?;
        let (name, audit) = (&self.name, &self.audit);
        super::in_sandbox(&self.tier, name, audit, async |sandbox, tier| {
            check_has_rules(sandbox)?;
            let in_force = match (sandbox.egress_rules().await, &new) {
                (Err(error), _) if error.kind() == ErrorKind::NotCarried => {
                    if self.carry || new.is_some() {
                        carrier::start(name, tier.tier, &self.tier, audit, new.as_ref())?;
                        Some(sandbox.egress_rules().await?)
                    } else {
                        None
                    }
                }
                (Err(error), _) => return Err(error.into()),
                (Ok(rules), None) => Some(rules),
                (Ok(_), Some(new)) => {
                    sandbox.set_egress(new.clone()).await?;
                    Some(sandbox.egress_rules().await?)
                }
            };
            self.show(in_force)
        })
        .await
    }

    fn show(&self, in_force: Option<EgressRules>) -> Outcome {
        let carried = in_force.is_some();
        let rules = in_force.unwrap_or_default().into_rules();
        let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
        match self.format.format {
            Format::Json => print_json(&EgressDocument { carried, rules })?,
            Format::Text if !carried => {
                let name = &self.name;
                print(&format!(
                    "no process carries the connections of {name:?}, so each is refused: start one with `sandbox egress {name} --carry`\n"
                ))?;
            }
            Format::Text if rules.is_empty() => print("every connection is denied\n")?,
            Format::Text => print(&format!("{}\n", rules.join("\n")))?,
        }
        Ok(Exit::SUCCESS)
    }

    /// Carries the connections until the sandbox ends.
    async fn carry_here(&self) -> Outcome {
        let mut signals = Signals::listen()?;
        let new = self.new_rules()?;
        let (name, audit) = (&self.name, &self.audit);
        let carrying = super::in_sandbox(&self.tier, name, audit, async |sandbox, _| {
            check_has_rules(sandbox)?;
            carrier::take_over(sandbox, new.clone()).await?;
            carrier::tell_ready();
            let reason = sandbox.ended().await?;
            tracing::info!(name, reason, "the sandbox has ended");
            Ok(Exit::SUCCESS)
        });
        tokio::select! {
            outcome = carrying => outcome,
            signal = signals.next() => Err(CommandError::interrupted(signal)),
        }
    }
}

fn check_has_rules(sandbox: &SandboxHandle) -> Result<(), CommandError> {
    if matches!(sandbox.plan().network, NetworkPolicy::Allow(_)) {
        return Ok(());
    }
    let why = format!("the sandbox {:?} has no egress rules", sandbox.name());
    Err(CommandError::argument(why)
        .with_fix("create it with --allow-host, or with egress rules in its policy file"))
}
