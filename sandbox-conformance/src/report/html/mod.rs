//! One self-contained page: the matrix, and the evidence behind each cell.
//!
//! The page has no script, so no output of a sandbox can become one. Cells are links, evidence
//! collapses, and the filters are checkboxes that the style sheet reads. A content security policy
//! forbids scripts and requests.

mod evidence;
mod matrix;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use sandbox_core::matrix::Subject;

use super::compare::{ReportDiff, ResultChange};
use super::escape::{html, printable};
use super::{RunResults, claim_status_label};
use crate::finding::Report;

/// The style sheet.
const STYLE: &str = include_str!("style.css");

/// The legend.
const LEGEND: &str = include_str!("legend.html");

/// The filters: class and label.
const FILTERS: [(&str, &str); 4] = [
    ("failed", "failed"),
    ("gap", "admitted gaps"),
    ("open", "open"),
    ("passed", "passed"),
];

/// The page of a run. `since` holds the changes since an earlier run.
#[must_use]
pub fn page(results: &RunResults, since: Option<&ReportDiff>) -> String {
    let mut page = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Sandbox conformance</title>\n",
    );
    let _ = write!(page, "<style>\n{STYLE}</style>\n</head>\n<body>\n");
    let (passed, failed, skipped) = results.counts();
    let _ = write!(
        page,
        "<header>\n<h1>Sandbox conformance</h1>\n<p><b>{passed} passed, {failed} failed, {skipped} skipped</b>, \
         <a href=\"#proof\">the suite's own proof</a> {}. Suite <code>{}</code>. A cell of the matrix says how many of its \
         probes found the capability enforced, and leads to what they saw.</p>\n{LEGEND}</header>\n\
         <nav aria-label=\"Filters\">Show probes:\n",
        results.proof_counted(),
        crate::suite::id()
    );
    for (name, word) in FILTERS {
        let findings = results.tiers.iter().flat_map(|report| &report.findings);
        let count = findings.filter(|finding| class(finding) == name).count();
        let _ = writeln!(
            page,
            "<span><input type=\"checkbox\" id=\"show-{name}\" checked><label for=\"show-{name}\">{word} ({count})</label></span>"
        );
    }
    page.push_str("</nav>\n<main>\n");
    matrix::table(&mut page, &results.tiers);
    if let Some(since) = since {
        diff(&mut page, since, &results.tiers);
    }
    for report in &results.tiers {
        tier(&mut page, report);
    }
    proofs(&mut page, results);
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn tier(page: &mut String, report: &Report) {
    let (passed, failed, skipped) = report.counts();
    let _ = write!(
        page,
        "<h2 id=\"{0}\">{0}</h2>\n<p>{1}</p>\n<p>{passed} passed, {failed} failed, {skipped} skipped</p>\n",
        html(&report.tier),
        html(
            &report
                .key
                .iter()
                .map(|(key, value)| format!("{key} {value}"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    );
    if let Some(reason) = &report.unavailable {
        let _ = writeln!(page, "<p>Not available: {}</p>", html(reason));
    }
    for subject in matrix::subjects(std::slice::from_ref(report)) {
        let _ = writeln!(
            page,
            "<section id=\"{}\">\n<h3>{}: {subject} <a href=\"#matrix\">to the matrix</a></h3>",
            matrix::anchor(report, subject),
            html(&report.tier)
        );
        for declared in declared(report, subject) {
            let _ = writeln!(page, "<p class=\"note\">Declared: {}</p>", html(&declared));
        }
        for finding in report.findings.iter().filter(|f| f.subject == subject) {
            evidence::details(page, finding);
        }
        page.push_str("</section>\n");
    }
}

/// The enforcement that a backend declares for a subject, without duplicates. It may differ between
/// setups.
fn declared(report: &Report, subject: Subject) -> BTreeSet<String> {
    let findings = report.findings.iter();
    let of_subject = findings.filter(|finding| finding.subject == subject);
    of_subject
        .filter_map(|finding| Some(finding.evidence.declared.as_ref()?.to_string()))
        .collect()
}

fn diff(page: &mut String, since: &ReportDiff, tiers: &[Report]) {
    let _ = writeln!(
        page,
        "<h2 id=\"changes\">Compared with the earlier report</h2>\n<p>{}.</p>",
        html(&since.summary())
    );
    if since.changes.is_empty() {
        return;
    }
    page.push_str(
        "<div class=\"wide\" tabindex=\"0\"><table>\n<tr><th>tier</th><th>probe</th><th>before</th><th>now</th></tr>\n",
    );
    for change in &since.changes {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            html(&change.tier),
            linked(change, tiers),
            html(change.before.as_deref().unwrap_or("not there")),
            html(change.now.as_deref().unwrap_or("not there")),
        );
    }
    page.push_str("</table></div>\n");
}

/// The id of a probe, as a link to its evidence if it has any.
fn linked(change: &ResultChange, tiers: &[Report]) -> String {
    let name = html(&change.probe);
    let mut of_tier = tiers.iter().filter(|report| report.tier == change.tier);
    let anchor = of_tier.find_map(|report| {
        let mut findings = report.findings.iter();
        let finding = findings.find(|finding| finding.id == change.probe)?;
        Some(matrix::anchor(report, finding.subject))
    });
    match anchor {
        Some(anchor) => format!("<a href=\"#{anchor}\">{name}</a>"),
        None => name,
    }
}

fn proofs(page: &mut String, results: &RunResults) {
    let (caught, possible) = results.score();
    let _ = writeln!(
        page,
        "<h2 id=\"proof\">How the suite proves itself</h2>\n<p>{caught} of {possible} mutants caught.</p>"
    );
    for check in &results.self_checks {
        let word = if check.wrong.is_empty() {
            "as expected"
        } else {
            "WRONG"
        };
        let _ = writeln!(
            page,
            "<details class=\"proof\"><summary>{}: {}: {word}, {} probes</summary>{}</details>",
            html(check.name),
            html(check.expectation),
            check.ran,
            list(check.wrong.iter().chain(&check.open))
        );
    }
    for mutant in &results.mutants {
        let word = match (&mutant.impossible, mutant.is_caught()) {
            (Some(why), _) => html(why),
            (None, true) => "caught".to_owned(),
            (None, false) => "NOT CAUGHT".to_owned(),
        };
        let _ = writeln!(
            page,
            "<details class=\"proof\"><summary>mutant: {}: {word}</summary>{}</details>",
            html(&mutant.name),
            list(mutant.noticed.iter().chain(&mutant.wrong()))
        );
    }
}

fn list<'a>(lines: impl Iterator<Item = &'a String>) -> String {
    let lines: String = lines
        .map(|line| format!("<li>{}</li>", html(&printable(line))))
        .collect();
    format!("<ul>{lines}</ul>")
}

/// The CSS class of a finding, for the filters.
fn class(finding: &crate::Finding) -> &'static str {
    match claim_status_label(&finding.claim_status()).0 {
        "ok" | "better than declared" => "passed",
        "admitted" => "gap",
        "open" => "open",
        _ => "failed",
    }
}
