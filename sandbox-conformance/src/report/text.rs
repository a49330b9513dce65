//! Lines and tables for a terminal.

use std::fmt::Write as _;

use super::Whole;
use super::escape::printable;
use crate::finding::{Finding, Standing};

/// One finding on one line.
#[must_use]
pub fn line(tier: &str, finding: &Finding) -> String {
    let (mark, why) = match finding.standing() {
        Standing::Passed => ("ok    ", String::new()),
        Standing::Modest(why) => ("ok+   ", why),
        Standing::Admitted(why) => ("gap   ", why),
        Standing::Open(why) => ("open  ", why),
        Standing::Failed(why) => ("FAILED", why),
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
    matches!(finding.standing(), Standing::Open(_))
}

fn is_failed(finding: &Finding) -> bool {
    matches!(finding.standing(), Standing::Failed(_))
}

/// What failed or was not decided, what the self-checks found, and the counts; `more` failures stand elsewhere.
#[must_use]
pub fn summary(whole: &Whole, more: usize) -> String {
    let mut text = String::new();
    for report in &whole.tiers {
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
        // What was not decided is said before what is wrong, which is read last.
        for told in [is_open, is_failed] {
            for finding in report.findings.iter().filter(|finding| told(finding)) {
                let _ = writeln!(text, "  {}", line(&report.tier, finding));
            }
        }
    }
    for check in &whole.self_checks {
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
    if !whole.mutants.is_empty() {
        text += &mutants(whole);
    }
    let (passed, failed, skipped) = whole.counts();
    let _ = writeln!(
        text,
        "{passed} passed, {} failed, {skipped} skipped",
        failed + more
    );
    text
}

fn mutants(whole: &Whole) -> String {
    let mut text = String::new();
    for mutant in &whole.mutants {
        if let Some(why) = &mutant.impossible {
            let _ = writeln!(text, "mutant {:<38} not here: {why}", mutant.name);
        }
        for wrong in mutant.wrong() {
            let _ = writeln!(text, "mutant {:<38} {}", mutant.name, printable(&wrong));
        }
    }
    let (caught, possible) = whole.score();
    let _ = writeln!(text, "mutants: {caught} of {possible} caught");
    text
}
