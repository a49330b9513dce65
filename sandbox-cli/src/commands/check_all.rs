//! `sandbox check --all`: which linked tier would enforce this policy here, and why the others cannot.

use sandbox::support::{self, Answer, Support};
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Outcome;
use crate::options::Request;
use crate::output::{Format, print, print_json};
use crate::table::table;

#[derive(Serialize)]
struct Document<'a> {
    /// Whether some tier would run it with its policy applied.
    accepted: bool,
    tiers: &'a [Support],
}

/// Asks every linked tier.
pub fn run(request: &Request, format: Format) -> Outcome {
    let tiers = super::block_on(support::linked(&request.policy, &request.spec))??;
    let accepted = tiers.iter().any(Support::is_enforced);
    match format {
        Format::Json => print_json(&Document {
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
        let mut whys = reasons(tier).into_iter();
        let cells = [
            tier.tier.clone(),
            answer(tier).to_owned(),
            tier.measured_profile.clone().unwrap_or_default(),
            whys.next().unwrap_or_default(),
        ];
        lines.push(cells.to_vec());
        let blank = String::new;
        lines.extend(whys.map(|why| vec![blank(), blank(), blank(), why]));
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

/// Each on a line of its own.
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
