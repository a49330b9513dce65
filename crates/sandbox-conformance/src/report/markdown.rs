//! Markdown: a table for each tier.

use std::fmt::Write as _;

use super::escape::markdown as safe;
use crate::finding::{Report, Standing};
use crate::selfcheck::SelfCheck;

/// The reports and self-checks as Markdown.
#[must_use]
pub fn markdown(reports: &[Report], self_checks: &[SelfCheck]) -> String {
    let mut text = String::from("# Conformance\n");
    for report in reports {
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
    for check in self_checks {
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
    text
}
