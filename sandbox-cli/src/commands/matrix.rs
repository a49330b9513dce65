//! `sandbox matrix`: what every linked tier enforces.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};

use clap::Args;
use sandbox::matrix::{Cell, CompatibilityMatrix};
use sandbox::registry::{self, Registration};
use sandbox::{
    Capability, CapabilityPolicy, Enforcement, EnforcementReport, SandboxClient, SandboxSpec,
};
use serde::Serialize;

use crate::command_error::{CommandError, Outcome};
use crate::exit::Exit;
use crate::output::{Format, FormatOption, print, print_json};
use crate::table::table;

/// The options of `matrix`.
#[derive(Debug, Args)]
pub struct MatrixArguments {
    /// Show what the tiers declare on this host instead of the project's published measurements
    #[arg(long)]
    here: bool,

    #[command(flatten)]
    pub format: FormatOption,
}

/// Runs the subcommand.
pub fn run(arguments: &MatrixArguments) -> Outcome {
    let measured = CompatibilityMatrix::linked()?;
    if arguments.here || measured.profiles().is_empty() {
        let tiers = registry::tiers()?;
        let document = super::block_on(Declared::on_this_host(&tiers))?;
        match arguments.format.format {
            Format::Json => print_json(&document)?,
            Format::Text => print(&document.text())?,
        }
    } else {
        match arguments.format.format {
            Format::Json => print_json(&Measured::new(&measured))?,
            Format::Text if io::stdout().is_terminal() => print(&aligned(&measured.markdown()))?,
            Format::Text => print(&measured.markdown())?,
        }
    }
    Ok(Exit::SUCCESS)
}

/// Markdown with its tables as aligned columns, for a terminal.
fn aligned(markdown: &str) -> String {
    let mut text = String::new();
    let mut rows = Vec::<Vec<String>>::new();
    let is_rule = |line: &str| line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' '));
    for line in markdown.lines() {
        if let Some(row) = line.strip_prefix('|') {
            if !is_rule(line) {
                let row = row.strip_suffix('|').unwrap_or(row);
                rows.push(
                    row.split('|')
                        .map(|cell| cell.trim().replace('`', ""))
                        .collect(),
                );
            }
            continue;
        }
        if !rows.is_empty() {
            text += &table(&std::mem::take(&mut rows));
        }
        text += line;
        text.push('\n');
    }
    text + &table(&rows)
}

/// What the conformance suite measured.
#[derive(Serialize)]
struct Measured {
    source: &'static str,
    profiles: Vec<MeasuredProfile>,
}

#[derive(Serialize)]
struct MeasuredProfile {
    profile: String,
    tier: String,
    suite: String,
    host: BTreeMap<String, String>,
    cells: BTreeMap<&'static str, Cell>,
}

impl Measured {
    fn new(matrix: &CompatibilityMatrix) -> Self {
        let profile = |(name, profile): &(String, sandbox::matrix::Profile)| MeasuredProfile {
            profile: name.clone(),
            tier: profile.tier.clone(),
            suite: profile.suite.clone(),
            host: profile.key.iter().cloned().collect(),
            cells: matrix
                .subjects()
                .into_iter()
                .filter_map(|subject| Some((subject.as_str(), matrix.cell(name, subject)?)))
                .collect(),
        };
        Self {
            source: "measured",
            profiles: matrix.profiles().iter().map(profile).collect(),
        }
    }
}

/// What the tiers declare.
#[derive(Serialize)]
struct Declared {
    source: &'static str,
    tiers: Vec<DeclaredTier>,
}

#[derive(Serialize)]
struct DeclaredTier {
    tier: &'static str,
    description: &'static str,
    enforcement: Option<EnforcementReport>,
    problem: Option<String>,
}

impl Declared {
    async fn on_this_host(tiers: &[&'static Registration]) -> Self {
        let mut declared = Vec::new();
        for tier in tiers {
            declared.push(DeclaredTier::ask(tier).await);
        }
        Self {
            source: "declared on this host, not measured",
            tiers: declared,
        }
    }

    fn text(&self) -> String {
        let tiers = self.tiers.iter().map(|row| row.tier.to_owned());
        let mut lines = vec![
            std::iter::once(String::new())
                .chain(tiers)
                .collect::<Vec<_>>(),
        ];
        for capability in Capability::ALL {
            let cells = self
                .tiers
                .iter()
                .map(|tier| tier.cell(*capability).to_owned());
            lines.push(
                std::iter::once(capability.to_string())
                    .chain(cells)
                    .collect(),
            );
        }
        let mut text = format!("{}:\n\n{}", self.source, table(&lines));
        for tier in &self.tiers {
            if let Some(problem) = &tier.problem {
                text += &format!("\n{}: {problem}\n", tier.tier);
            }
        }
        text
    }
}

impl DeclaredTier {
    /// Checks the default policy plus two optional demands, so that the report includes them.
    async fn ask(tier: &'static Registration) -> Self {
        let mut policy = CapabilityPolicy::new();
        policy.subprocess_execution = Some(false);
        policy.artifact_export_paths = vec!["/output/**".into()];
        let report = match SandboxClient::open(tier.tier, policy) {
            Ok(client) => {
                let spec = SandboxSpec::new("matrix");
                client.check(&spec).await.map(|support| support.report)
            }
            Err(error) => Err(error),
        };
        let (enforcement, problem) = match report {
            Ok(report) => (Some(report), None),
            Err(error) => (None, Some(CommandError::from(error).to_string())),
        };
        Self {
            tier: tier.tier,
            description: tier.description,
            enforcement,
            problem,
        }
    }

    fn cell(&self, capability: Capability) -> &'static str {
        match &self.enforcement {
            None => "?",
            Some(report) => report.get(capability).map_or("-", Enforcement::status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned_and_other_lines_stay() {
        let markdown = "Head:\n\n| a | `local` |\n|---|:--|\n| memory | yes |\n\nNote.\n";
        let text = aligned(markdown);
        assert_eq!(text, "Head:\n\na       local\nmemory  yes\n\nNote.\n");
        assert_eq!(aligned("| a |\n"), "a\n");
    }
}
