//! `sandbox matrix`: what every linked tier enforces.

use clap::Args;
use sandbox::registry::{self, Registration};
use sandbox::{
    Capability, CapabilityPolicy, Enforcement, EnforcementReport, SandboxClient, SandboxSpec,
};
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::{Format, print, print_json};
use crate::table::table;

/// What stands above the matrix: a declaration is no measurement.
const SOURCE: &str = "declared on this host, not measured";

/// The options of `matrix`.
#[derive(Debug, Args)]
pub struct MatrixArguments {
    /// How the answer is written
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    pub format: Format,
}

#[derive(Serialize)]
struct Document {
    source: &'static str,
    tiers: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    tier: &'static str,
    description: &'static str,
    enforcement: Option<EnforcementReport>,
    problem: Option<String>,
}

/// Runs the subcommand.
pub fn run(arguments: &MatrixArguments) -> Outcome {
    let tiers = registry::tiers()?;
    let tiers = super::block_on(async {
        let mut rows = Vec::new();
        for tier in tiers {
            rows.push(declared(tier).await);
        }
        rows
    })?;
    let document = Document {
        source: SOURCE,
        tiers,
    };
    match arguments.format {
        Format::Json => print_json(&document)?,
        Format::Text => print(&text(&document))?,
    }
    Ok(Exit::SUCCESS)
}

/// What a tier says of the default policy, and of a sandbox without child processes.
async fn declared(tier: &'static Registration) -> Row {
    let mut policy = CapabilityPolicy::new();
    policy.subprocess_execution = Some(false);
    policy.artifact_export_paths = vec!["/output/**".into()];
    let report = match SandboxClient::open(tier.tier, policy) {
        Ok(client) => client
            .check(&SandboxSpec::new("matrix"))
            .await
            .map(|(_, report, _)| report),
        Err(error) => Err(error),
    };
    let (enforcement, problem) = match report {
        Ok(report) => (Some(report), None),
        Err(error) => (None, Some(Failure::from(error).to_string())),
    };
    Row {
        tier: tier.tier,
        description: tier.description,
        enforcement,
        problem,
    }
}

fn text(document: &Document) -> String {
    let tiers = document.tiers.iter().map(|row| row.tier.to_owned());
    let mut lines = vec![
        std::iter::once(String::new())
            .chain(tiers)
            .collect::<Vec<_>>(),
    ];
    for capability in Capability::ALL {
        let cells = document
            .tiers
            .iter()
            .map(|row| cell(row, *capability).to_owned());
        lines.push(
            std::iter::once(capability.to_string())
                .chain(cells)
                .collect(),
        );
    }
    let mut text = format!("{}:\n\n{}", document.source, table(&lines));
    for row in &document.tiers {
        if let Some(problem) = &row.problem {
            text += &format!("\n{}: {problem}\n", row.tier);
        }
    }
    text
}

fn cell(row: &Row, capability: Capability) -> &'static str {
    match &row.enforcement {
        None => "?",
        Some(report) => report.get(capability).map_or("-", Enforcement::status),
    }
}
