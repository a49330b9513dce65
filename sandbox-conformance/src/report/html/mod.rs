//! One self-contained page: the matrix at a glance, behind each cell what its probes saw.
//!
//! It has no script, so that nothing of a guest can become one, and everything works without: cells are links to their evidence,
//! evidence folds, and the filters are boxes that the style sheet looks at. A policy in the page forbids scripts and requests.

mod evidence;
mod matrix;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use sandbox_core::matrix::Subject;

use super::compare::{Change, Compared};
use super::escape::{html, printable};
use super::{Whole, standing_word};
use crate::finding::Report;

/// The style sheet.
const STYLE: &str = include_str!("style.css");

/// What the words mean.
const LEGEND: &str = include_str!("legend.html");

/// What the boxes show: name, and the word for people.
const FILTERS: [(&str, &str); 4] = [
    ("failed", "failed"),
    ("gap", "admitted gaps"),
    ("open", "open"),
    ("passed", "passed"),
];

/// The page of a run; `since` is what has changed since an earlier one.
#[must_use]
pub fn page(whole: &Whole, since: Option<&Compared>) -> String {
    let mut page = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Sandbox conformance</title>\n",
    );
    let _ = write!(page, "<style>\n{STYLE}</style>\n</head>\n<body>\n");
    let (passed, failed, skipped) = whole.counts();
    let _ = write!(
        page,
        "<header>\n<h1>Sandbox conformance</h1>\n<p><b>{passed} passed, {failed} failed, {skipped} skipped</b>, \
         <a href=\"#proof\">the suite's own proof</a> {}. Suite <code>{}</code>. A cell of the matrix says how many of its \
         probes found the capability enforced, and leads to what they saw.</p>\n{LEGEND}</header>\n\
         <nav aria-label=\"Filters\">Show probes:\n",
        whole.proof_counted(),
        crate::suite::id()
    );
    for (name, word) in FILTERS {
        let findings = whole.tiers.iter().flat_map(|report| &report.findings);
        let count = findings.filter(|finding| class(finding) == name).count();
        let _ = writeln!(
            page,
            "<span><input type=\"checkbox\" id=\"show-{name}\" checked><label for=\"show-{name}\">{word} ({count})</label></span>"
        );
    }
    page.push_str("</nav>\n<main>\n");
    matrix::table(&mut page, &whole.tiers);
    if let Some(since) = since {
        compared(&mut page, since, &whole.tiers);
    }
    for report in &whole.tiers {
        tier(&mut page, report);
    }
    proofs(&mut page, whole);
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

/// What the backend says of a subject, each answer once: settings differ.
fn declared(report: &Report, subject: Subject) -> BTreeSet<String> {
    let findings = report.findings.iter();
    let of_subject = findings.filter(|finding| finding.subject == subject);
    of_subject
        .filter_map(|finding| Some(finding.evidence.declared.as_ref()?.to_string()))
        .collect()
}

fn compared(page: &mut String, since: &Compared, tiers: &[Report]) {
    let _ = writeln!(
        page,
        "<h2 id=\"changes\">Compared with the earlier report</h2>\n<p>{}.</p>",
        html(&since.told())
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

/// The name of a probe, as a link to what it saw where it is there now.
fn linked(change: &Change, tiers: &[Report]) -> String {
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

fn proofs(page: &mut String, whole: &Whole) {
    let (caught, possible) = whole.score();
    let _ = writeln!(
        page,
        "<h2 id=\"proof\">How the suite proves itself</h2>\n<p>{caught} of {possible} mutants caught.</p>"
    );
    for check in &whole.self_checks {
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
    for mutant in &whole.mutants {
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

/// The class of a finding, by which the boxes show it.
fn class(finding: &crate::Finding) -> &'static str {
    match standing_word(&finding.standing()).0 {
        "ok" | "better than declared" => "passed",
        "admitted" => "gap",
        "open" => "open",
        _ => "failed",
    }
}
