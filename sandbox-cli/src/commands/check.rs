//! `sandbox check`: would this policy be enforced here?

use clap::Args;
use sandbox::support::{Support, SupportedDemand};
use sandbox::{Enforcement, Level, SandboxClient, registry};
use serde::Serialize;

use crate::command_error::Outcome;
use crate::exit::Exit;
use crate::options::PolicyOptions;
use crate::output::{Format, FormatOption, print, print_json};
use crate::table::table;

/// The options of `check`.
#[derive(Debug, Args)]
pub struct CheckArguments {
    #[command(flatten)]
    pub format: FormatOption,

    /// Check every tier, and explain why a tier cannot enforce the policy
    #[arg(long, conflicts_with_all = ["backend", "runtime", "package_network", "conda"])]
    all: bool,

    #[command(flatten)]
    policy: PolicyOptions,
}

#[derive(Serialize)]
struct CheckDocument<'a> {
    backend: &'a str,
    tier: &'a str,
    accepted: bool,
    capabilities: Vec<CapabilityRow<'a>>,
}

#[derive(Serialize)]
struct CapabilityRow<'a> {
    capability: &'a str,
    demanded: &'a str,
    level: Level,
    #[serde(flatten)]
    enforcement: &'a Enforcement,
    accepted: bool,
}

/// Runs the subcommand.
pub fn run(arguments: &CheckArguments) -> Outcome {
    if arguments.all {
        return super::check_all::run(&arguments.policy.resolve()?, arguments.format.format);
    }
    let tier = registry::tier(&arguments.policy.backend)?;
    let request = arguments.policy.resolve()?;
    let client = SandboxClient::open_with(tier.tier, request.policy, &request.settings)?;
    let support = super::block_on(client.check(&request.spec))??;
    let document = CheckDocument {
        backend: tier.backend,
        tier: tier.tier,
        accepted: support.is_accepted(),
        capabilities: rows(&support),
    };
    match arguments.format.format {
        Format::Json => print_json(&document)?,
        Format::Text => print(&text(&document))?,
    }
    Ok(if document.accepted {
        Exit::SUCCESS
    } else {
        Exit::WOULD_BE_REFUSED
    })
}

fn rows<'a>(support: &'a Support) -> Vec<CapabilityRow<'a>> {
    let unmet = support.unmet();
    let row = |supported: &'a SupportedDemand| {
        let SupportedDemand {
            demand,
            enforcement,
            ..
        } = supported;
        CapabilityRow {
            capability: demand.capability.as_str(),
            demanded: &demand.value,
            level: demand.level,
            enforcement,
            accepted: !unmet.iter().any(|unmet| unmet.demand == *demand),
        }
    };
    support.demands.iter().map(row).collect()
}

fn text(document: &CheckDocument<'_>) -> String {
    let heading = [
        "",
        "CAPABILITY",
        "DEMANDED",
        "LEVEL",
        "STATUS",
        "HOW, AND WHAT IS MISSING",
    ];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    for row in &document.capabilities {
        let level = match row.level {
            Level::Required => "required",
            Level::Wanted => "wanted",
        };
        let how = match row.enforcement {
            Enforcement::Enforced { mechanisms } => mechanisms.to_string(),
            Enforcement::Partial { mechanisms, gap } => format!("{mechanisms}; gap: {gap}"),
            Enforcement::Unenforced { reason } => reason.clone(),
        };
        let mark = if row.accepted { "" } else { "!" };
        let cells = [
            mark,
            row.capability,
            row.demanded,
            level,
            row.enforcement.status(),
            &how,
        ];
        lines.push(cells.map(str::to_owned).to_vec());
    }
    let verdict = if document.accepted {
        "would run"
    } else {
        "would be refused: the rows marked with !"
    };
    format!("{}\n{}: {verdict}\n", table(&lines), document.tier)
}
