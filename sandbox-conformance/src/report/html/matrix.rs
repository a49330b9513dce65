//! The table at the top of the page.

use std::fmt::Write as _;

use sandbox_core::matrix::{Cell, CellState, Observation, Subject};

use crate::finding::Report;
use crate::report::escape::html;

/// The subjects of these reports, in the order of the matrix.
pub(super) fn subjects(reports: &[Report]) -> Vec<Subject> {
    let probed = |subject: &Subject| {
        let mut findings = reports.iter().flat_map(|report| &report.findings);
        findings.any(|finding| finding.subject == *subject)
    };
    Subject::all().filter(probed).collect()
}

/// The anchor of a cell's evidence.
pub(super) fn anchor(report: &Report, subject: Subject) -> String {
    format!("{}--{subject}", html(&report.tier))
}

/// The matrix: a row for each subject, a column for each tier.
pub(super) fn table(page: &mut String, reports: &[Report]) {
    page.push_str(
        "<h2 id=\"matrix\">The matrix</h2>\n<div class=\"wide\" tabindex=\"0\"><table>\n<tr><th scope=\"col\">capability</th>",
    );
    for report in reports {
        let _ = write!(
            page,
            "<th scope=\"col\"><a href=\"#{0}\">{0}</a></th>",
            html(&report.tier)
        );
    }
    page.push_str("</tr>\n");
    for subject in subjects(reports) {
        let _ = write!(page, "<tr><th scope=\"row\">{subject}</th>");
        for report in reports {
            let profile = report.profile();
            let seen: Vec<&Observation> = profile
                .probes
                .values()
                .filter(|observation| observation.subject == subject)
                .collect();
            let cell = Cell::derive(&seen);
            let _ = write!(
                page,
                "<td class=\"{}\"><a href=\"#{}\">{cell}</a></td>",
                class(cell.state),
                anchor(report, subject)
            );
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
}

fn class(state: CellState) -> &'static str {
    match state {
        CellState::Enforced => "cell-enforced",
        CellState::Partial => "cell-partial",
        CellState::Broken => "cell-broken",
        CellState::NotEnforced | CellState::Refused => "cell-not",
        CellState::Unmeasured => "cell-open",
    }
}
