//! Markdown: a table for each tier.

use std::fmt::Write as _;

use super::Whole;
use super::escape::markdown as safe;
use crate::finding::Standing;

/// A run as Markdown.
#[must_use]
pub fn markdown(whole: &Whole) -> String {
    let (passed, failed, skipped) = whole.counts();
    let mut text = format!(
        "# Conformance\n\n{passed} passed, {failed} failed, {skipped} skipped, the suite's own proof {}; report.html beside this has \
         what each probe saw.\n",
        whole.proof_counted()
    );
    for report in &whole.tiers {
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
            let (standing, why) = match finding.standing() {
                Standing::Passed => ("ok", finding.detail()),
                Standing::Modest(why) => ("better than declared", why),
                Standing::Admitted(why) => ("admitted", why),
                Standing::Open(why) => ("open", why),
                Standing::Failed(why) => ("**FAILED**", why),
            };
            let _ = writeln!(
                text,
                "| {} | {} | {standing} | {} |",
                safe(finding.id),
                finding.verdict,
                safe(&why)
            );
        }
    }
    text.push_str("\n## Self-checks\n\n");
    for check in &whole.self_checks {
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
    let (caught, possible) = whole.score();
    let _ = writeln!(text, "\n## Mutants\n\n{caught} of {possible} caught\n");
    for mutant in &whole.mutants {
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
