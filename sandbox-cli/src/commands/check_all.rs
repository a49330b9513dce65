//! `sandbox check --all`: which tiers would enforce a policy, and why the others cannot.

use sandbox::support::{self, Answer, Support};
use serde::Serialize;

use crate::command_error::Outcome;
use crate::exit::Exit;
use crate::options::ResolvedOptions;
use crate::output::{Format, print, print_json};
use crate::table::table;

#[derive(Serialize)]
struct CheckAllDocument<'a> {
    /// Whether a tier would enforce the policy.
    accepted: bool,
    tiers: &'a [Support],
}

/// Checks every tier.
pub fn run(request: &ResolvedOptions, format: Format) -> Outcome {
    let tiers = super::block_on(support::linked(&request.policy, &request.spec))??;
    let accepted = tiers.iter().any(Support::is_enforced);
    match format {
        Format::Json => print_json(&CheckAllDocument {
            accepted,
            tiers: &tiers,
        })?,
        Format::Text => print(&text(&tiers))?,
    }
    Ok(if accepted {
        Exit::SUCCESS
    } else {
        Exit::WOULD_BE_REFUSED
    })
}

fn text(tiers: &[Support]) -> String {
    let heading = ["TIER", "ANSWER", "MEASURED", "WHY NOT"];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    for tier in tiers {
        let mut reasons_left = reasons(tier).into_iter();
        let cells = [
            tier.tier.clone(),
            answer(tier).to_owned(),
            tier.measured_profile.clone().unwrap_or_default(),
            reasons_left.next().unwrap_or_default(),
        ];
        lines.push(cells.to_vec());
        let blank = String::new;
        lines.extend(reasons_left.map(|reason| vec![blank(), blank(), blank(), reason]));
    }
    table(&lines)
}

fn answer(tier: &Support) -> &'static str {
    match &tier.answer {
        Answer::Accepted if tier.applies_policy => "would run",
        Answer::Accepted => "would run, enforcing nothing",
        Answer::Refused { .. } => "would be refused",
        _ => "cannot",
    }
}

/// The reasons against a tier, one per line.
fn reasons(tier: &Support) -> Vec<String> {
    match &tier.answer {
        Answer::Refused { unmet, .. } => unmet.iter().map(ToString::to_string).collect(),
        Answer::Impossible { reason, fix, .. } => match fix {
            Some(fix) => vec![format!("{reason} (fix: {fix})")],
            None => vec![reason.clone()],
        },
        _ => Vec::new(),
    }
}
