//! `sandbox doctor`: what this host can enforce, and how to get what is missing.

use clap::Args;
use sandbox::registry::{self, Registration};
use sandbox::spi::{Finding, escape};
use sandbox::{CapabilityPolicy, Error, ErrorKind, SandboxClient, SandboxSpec};
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
    /// The engine or cluster is not there: one line says that.
    #[serde(skip)]
    absent: Option<String>,
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
        Format::Text => print(&text(&document, arguments.backend.is_some()))?,
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
    let (findings, checked) = match SandboxClient::open(tier.tier, CapabilityPolicy::new()) {
        Err(error) => (Vec::new(), Err(error)),
        Ok(client) => {
            let checked = client.check(&SandboxSpec::new("doctor")).await;
            (client.diagnose().await, checked)
        }
    };
    let absent = checked.as_ref().err().and_then(absent);
    let problem = match checked {
        Ok(support) if support.is_accepted() => None,
        Ok(support) => {
            let unmet = support.unmet().iter().map(ToString::to_string);
            Some(unmet.collect::<Vec<_>>().join("; "))
        }
        Err(error) => Some(CommandError::from(error).to_string()),
    };
    TierDiagnosis {
        tier: tier.tier,
        description: tier.description,
        findings,
        runs_default_policy: problem.is_none(),
        problem,
        absent,
    }
}

/// The first sentence of an error that says that an engine or a cluster is not there.
fn absent(error: &Error) -> Option<String> {
    if error.kind() != ErrorKind::SandboxUnavailable {
        return None;
    }
    let context = error.context();
    let end = [": ", "; "].into_iter().filter_map(|end| context.find(end));
    let first = &context[..end.min().unwrap_or(context.len())];
    Some(escape(first))
}

/// The diagnosis of one tier is complete; in a list, a tier that is absent is one line.
fn text(document: &DoctorDocument, is_single: bool) -> String {
    let mut text = String::new();
    if document.tiers.is_empty() {
        text += "no tier that applies a policy is linked\n";
    }
    for report in &document.tiers {
        if let (Some(why), false) = (&report.absent, is_single) {
            let tier = report.tier;
            text += &format!("{tier}: not here: {why} (`sandbox doctor -b {tier}` says more)\n");
            continue;
        }
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
            absent: None,
        };
        let document = DoctorDocument {
            tiers: vec![report],
        };
        assert_eq!(
            text(&document, false),
            "local: the default policy runs here\n  yes  user namespaces: found\n  no   user namespaces: found\n       \
             fix: sysctl x=1\n"
        );
    }

    #[test]
    fn absent_engine_is_one_line_unless_it_is_named() {
        let long = "no Docker engine answers: /a: no such socket; /b: no such socket";
        let error = Error::unavailable("docker", long, "start Docker");
        let report = TierDiagnosis {
            tier: "docker",
            description: "",
            findings: Vec::new(),
            runs_default_policy: false,
            problem: Some(long.to_owned()),
            absent: absent(&error),
        };
        let document = DoctorDocument {
            tiers: vec![report],
        };
        let line = text(&document, false);
        let expected =
            "docker: not here: no Docker engine answers (`sandbox doctor -b docker` says more)\n";
        assert_eq!(line, expected);
        assert!(text(&document, true).contains("/b: no such socket"));
    }
}
