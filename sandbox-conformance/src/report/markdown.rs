//! Markdown: a table for each tier.

use std::fmt::Write as _;

use super::RunResults;
use super::escape::markdown as safe;
use crate::finding::ClaimStatus;

/// A run as Markdown.
#[must_use]
pub fn markdown(results: &RunResults) -> String {
    let (passed, failed, skipped) = results.counts();
    let mut text = format!(
        "# Conformance\n\n{passed} passed, {failed} failed, {skipped} skipped, the suite's own proof {}; report.html beside this has \
         what each probe saw.\n",
        results.proof_counted()
    );
    for report in &results.tiers {
        let (passed, failed, skipped) = report.counts();
        let _ = writeln!(text, "\n## {}\n", safe(&report.tier));
        let key: Vec<_> = report
            .key
            .iter()
            .map(|(key, value)| format!("{key} {value}"))
            .collect();
        let _ = writeln!(text, "{}\n", safe(&key.join(", ")));
        if let Some(reason) = &report.unavailable {
            let _ = writeln!(text, "Not available: {}\n", safe(reason));
        }
        let _ = writeln!(
            text,
            "{passed} passed, {failed} failed, {skipped} skipped\n"
        );
        text.push_str("| probe | verdict | | what decided |\n|---|---|---|---|\n");
        for finding in &report.findings {
            let (claim_status, why) = match finding.claim_status() {
                ClaimStatus::Passed => ("ok", finding.detail()),
                ClaimStatus::BetterThanClaimed(why) => ("better than declared", why),
                ClaimStatus::Admitted(why) => ("admitted", why),
                ClaimStatus::Undecided(why) => ("open", why),
                ClaimStatus::Failed(why) => ("**FAILED**", why),
            };
            let _ = writeln!(
                text,
                "| {} | {} | {claim_status} | {} |",
                safe(finding.id),
                finding.verdict,
                safe(&why)
            );
        }
    }
    text.push_str("\n## Self-checks\n\n");
    for check in &results.self_checks {
        let found = if check.wrong.is_empty() {
            "as expected"
        } else {
            "**WRONG**"
        };
        let _ = writeln!(
            text,
            "- {}: {} ({}): {found}, {} probes, {} open",
            safe(check.name),
            safe(check.expectation),
            check.wrong.len(),
            check.ran,
            check.open.len()
        );
        for wrong in &check.wrong {
            let _ = writeln!(text, "  - {}", safe(wrong));
        }
    }
    let (caught, possible) = results.score();
    let _ = writeln!(text, "\n## Mutants\n\n{caught} of {possible} caught\n");
    for mutant in &results.mutants {
        let found = match (&mutant.impossible, mutant.is_caught()) {
            (Some(why), _) => safe(why),
            (None, true) => "caught".to_owned(),
            (None, false) => "**NOT CAUGHT**".to_owned(),
        };
        let _ = writeln!(text, "- {}: {found}", safe(&mutant.name));
        for noticed in mutant.noticed.iter().chain(&mutant.wrong()) {
            let _ = writeln!(text, "  - {}", safe(noticed));
        }
    }
    text
}
