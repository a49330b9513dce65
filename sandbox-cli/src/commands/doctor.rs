//! `sandbox doctor`: what this host can enforce, and how to get what is missing.

use clap::Args;
use sandbox::registry::{self, Registration};
use sandbox::spi::Finding;
use sandbox::{CapabilityPolicy, SandboxClient, SandboxSpec};
use serde::Serialize;

use crate::command_error::{CommandError, Outcome};
use crate::exit::Exit;
use crate::output::{Format, FormatOption, print, print_json};

/// The options of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// Diagnose only this tier
    #[arg(short, long, value_name = "TIER")]
    backend: Option<String>,

    #[command(flatten)]
    pub format: FormatOption,
}

#[derive(Serialize)]
struct DoctorDocument {
    tiers: Vec<TierDiagnosis>,
}

#[derive(Serialize)]
struct TierDiagnosis {
    tier: &'static str,
    description: &'static str,
    findings: Vec<Finding>,
    /// Whether a sandbox with the default policy would be created.
    runs_default_policy: bool,
    /// Why not.
    problem: Option<String>,
}

/// Runs the subcommand.
pub fn run(arguments: &DoctorArguments) -> Outcome {
    let tiers = match &arguments.backend {
        Some(name) => vec![registry::tier(name)?],
        None => registry::tiers()?
            .into_iter()
            .filter(|tier| tier.applies_policy)
            .collect(),
    };
    let tiers = super::block_on(async {
        let mut reports = Vec::new();
        for tier in tiers {
            reports.push(examine(tier).await);
        }
        reports
    })?;
    let document = DoctorDocument { tiers };
    match arguments.format.format {
        Format::Json => print_json(&document)?,
        Format::Text => print(&text(&document))?,
    }
    let runs = document
        .tiers
        .iter()
        .any(|report| report.runs_default_policy);
    Ok(if runs {
        Exit::SUCCESS
    } else {
        Exit::NOTHING_RUNS
    })
}

async fn examine(tier: &'static Registration) -> TierDiagnosis {
    let (findings, problem) = match SandboxClient::open(tier.tier, CapabilityPolicy::new()) {
        Err(error) => (Vec::new(), Some(CommandError::from(error).to_string())),
        Ok(client) => (client.diagnose().await, problem(&client).await),
    };
    TierDiagnosis {
        tier: tier.tier,
        description: tier.description,
        findings,
        runs_default_policy: problem.is_none(),
        problem,
    }
}

/// Why the default policy cannot be enforced.
async fn problem(client: &SandboxClient) -> Option<String> {
    match client.check(&SandboxSpec::new("doctor")).await {
        Ok(support) if support.is_accepted() => None,
        Ok(support) => Some(
            support
                .unmet()
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; "),
        ),
        Err(error) => Some(CommandError::from(error).to_string()),
    }
}

fn text(document: &DoctorDocument) -> String {
    let mut text = String::new();
    if document.tiers.is_empty() {
        text += "no tier that applies a policy is linked\n";
    }
    for report in &document.tiers {
        let verdict = match &report.problem {
            None => "the default policy runs here".to_owned(),
            Some(problem) => format!("the default policy does not run here: {problem}"),
        };
        text += &format!("{}: {verdict}\n", report.tier);
        for finding in &report.findings {
            let mark = if finding.present { "yes" } else { "no " };
            text += &format!("  {mark}  {}: {}\n", finding.name, finding.detail);
            if !finding.present && !finding.fix.is_empty() {
                text += &format!("       fix: {}\n", finding.fix);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_features_are_printed_with_fix() {
        let finding = |present, fix: &str| Finding {
            name: "user namespaces".into(),
            present,
            detail: "found".into(),
            fix: fix.into(),
        };
        let report = TierDiagnosis {
            tier: "local",
            description: "",
            findings: vec![finding(true, ""), finding(false, "sysctl x=1")],
            runs_default_policy: true,
            problem: None,
        };
        assert_eq!(
            text(&DoctorDocument {
                tiers: vec![report]
            }),
            "local: the default policy runs here\n  yes  user namespaces: found\n  no   user namespaces: found\n       \
             fix: sysctl x=1\n"
        );
    }
}
