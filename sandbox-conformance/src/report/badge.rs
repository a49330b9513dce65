//! A badge in the format of shields.io.

use serde::Serialize;

use super::RunResults;
use crate::finding::Report;

/// The version of the format.
const SCHEMA: u8 = 1;

/// A badge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Badge {
    schema_version: u8,
    label: String,
    message: String,
    color: &'static str,
}

/// The badge of a run, with its self-checks and mutants.
#[must_use]
pub fn results(results: &RunResults) -> Badge {
    let counts = results.tiers.iter().map(Report::counts);
    let (passed, failed) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    badge("sandbox conformance", passed, failed, results.is_fine())
}

/// The badge of a tier.
#[must_use]
pub fn tier(report: &Report) -> Badge {
    let (passed, failed, _) = report.counts();
    badge(&report.tier, passed, failed, failed == 0)
}

fn badge(label: &str, passed: usize, failed: usize, fine: bool) -> Badge {
    let (message, color) = match (passed, failed, fine) {
        (0, 0, true) => ("not measured".to_owned(), "lightgrey"),
        (_, 0, true) => (format!("{passed} probes passed"), "brightgreen"),
        (_, 0, false) => ("the suite is not proven".to_owned(), "red"),
        _ => (format!("{failed} failed, {passed} passed"), "red"),
    };
    Badge {
        schema_version: SCHEMA,
        label: label.to_owned(),
        message,
        color,
    }
}
