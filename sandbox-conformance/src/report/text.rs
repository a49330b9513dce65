//! Text for a terminal.

use std::fmt::Write as _;

use super::RunResults;
use super::escape::printable;
use crate::finding::{ClaimStatus, Finding};

/// One finding on one line.
#[must_use]
pub fn line(tier: &str, finding: &Finding) -> String {
    let (mark, why) = match finding.claim_status() {
        ClaimStatus::Passed => ("ok    ", String::new()),
        ClaimStatus::BetterThanClaimed(why) => ("ok+   ", why),
        ClaimStatus::Admitted(why) => ("gap   ", why),
        ClaimStatus::Undecided(why) => ("open  ", why),
        ClaimStatus::Failed(why) => ("FAILED", why),
    };
    let text = format!(
        "{mark} [{tier}] {:<38} {:<12} {:>6} ms  {}",
        finding.id,
        finding.verdict.as_str(),
        finding.milliseconds,
        printable(&why)
    );
    text.trim_end().to_owned()
}

fn is_open(finding: &Finding) -> bool {
    matches!(finding.claim_status(), ClaimStatus::Undecided(_))
}

fn is_failed(finding: &Finding) -> bool {
    matches!(finding.claim_status(), ClaimStatus::Failed(_))
}

/// Everything that failed or is undecided, the self-checks, and the counts. `more` is the number of
/// failures printed elsewhere.
#[must_use]
pub fn summary(results: &RunResults, more: usize) -> String {
    let mut text = String::new();
    for report in &results.tiers {
        let _ = writeln!(text, "{}", report.tier);
        if let Some(reason) = &report.unavailable {
            let _ = writeln!(text, "  not measured: {}", printable(reason));
            continue;
        }
        let mut areas: Vec<(&str, Vec<&Finding>)> = Vec::new();
        for finding in &report.findings {
            let subject = finding.subject.as_str();
            match areas.iter_mut().find(|(name, _)| *name == subject) {
                Some((_, findings)) => findings.push(finding),
                None => areas.push((subject, vec![finding])),
            }
        }
        areas.sort_by_key(|(name, _)| *name);
        for (subject, findings) in areas {
            let mut verdicts: Vec<(&str, usize)> = Vec::new();
            for finding in findings {
                match verdicts
                    .iter_mut()
                    .find(|(name, _)| *name == finding.verdict.as_str())
                {
                    Some((_, count)) => *count += 1,
                    None => verdicts.push((finding.verdict.as_str(), 1)),
                }
            }
            let verdicts: Vec<_> = verdicts
                .iter()
                .map(|(name, count)| format!("{count} {name}"))
                .collect();
            let _ = writeln!(text, "  {subject:<24} {}", verdicts.join(", "));
        }
        // Failures come last, because the end of the output is read first.
        for is_shown in [is_open, is_failed] {
            for finding in report.findings.iter().filter(|finding| is_shown(finding)) {
                let _ = writeln!(text, "  {}", line(&report.tier, finding));
            }
        }
    }
    for check in &results.self_checks {
        let found = if check.wrong.is_empty() {
            "ok"
        } else {
            "WRONG"
        };
        let open = check.open.len();
        let _ = writeln!(
            text,
            "self-check {:<34} {found} ({} probes, {open} open)",
            check.name, check.ran
        );
        for wrong in &check.wrong {
            let _ = writeln!(text, "  {}", printable(wrong));
        }
    }
    if !results.mutants.is_empty() {
        text += &mutants(results);
    }
    let (passed, failed, skipped) = results.counts();
    let _ = writeln!(
        text,
        "{passed} passed, {} failed, {skipped} skipped",
        failed + more
    );
    text
}

fn mutants(results: &RunResults) -> String {
    let mut text = String::new();
    for mutant in &results.mutants {
        if let Some(why) = &mutant.impossible {
            let _ = writeln!(text, "mutant {:<38} not here: {why}", mutant.name);
        }
        for wrong in mutant.wrong() {
            let _ = writeln!(text, "mutant {:<38} {}", mutant.name, printable(&wrong));
        }
    }
    let (caught, possible) = results.score();
    let _ = writeln!(text, "mutants: {caught} of {possible} caught");
    text
}
