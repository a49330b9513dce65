//! JUnit XML: a suite for each tier, a case for each probe.

use std::fmt::Write as _;

use super::RunResults;
use super::escape::xml;
use crate::finding::ClaimStatus;

/// A run as JUnit XML.
#[must_use]
pub fn junit(results: &RunResults) -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"sandbox-conformance\">\n",
    );
    for report in &results.tiers {
        let (_, failed, skipped) = report.counts();
        let _ = writeln!(
            text,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{failed}\" errors=\"0\" skipped=\"{skipped}\">",
            xml(&report.tier),
            report.findings.len(),
        );
        for finding in &report.findings {
            let (area, name) = finding.id.split_once("::").unwrap_or(("", finding.id));
            let seconds = std::time::Duration::from_millis(finding.milliseconds).as_secs_f64();
            let _ = write!(
                text,
                "    <testcase classname=\"{}.{}\" name=\"{}\" time=\"{seconds:.3}\"",
                xml(&report.tier),
                xml(area),
                xml(name),
            );
            let (element, why) = match finding.claim_status() {
                ClaimStatus::Passed | ClaimStatus::BetterThanClaimed(_) => {
                    text.push_str("/>\n");
                    continue;
                }
                ClaimStatus::Failed(why) => ("failure", why),
                ClaimStatus::Admitted(why) | ClaimStatus::Undecided(why) => ("skipped", why),
            };
            let _ = writeln!(
                text,
                "><{element} message=\"{}: {}\"/></testcase>",
                finding.verdict,
                xml(&why)
            );
        }
        text.push_str("  </testsuite>\n");
    }
    let proofs = results.proofs();
    let failed = proofs.iter().filter(|proof| !proof.wrong.is_empty());
    let skipped = proofs.iter().filter(|proof| proof.impossible.is_some());
    let _ = writeln!(
        text,
        "  <testsuite name=\"self-check\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\">",
        proofs.len(),
        failed.count(),
        skipped.count()
    );
    for proof in &proofs {
        let _ = write!(
            text,
            "    <testcase classname=\"self-check\" name=\"{}\"",
            xml(&proof.name)
        );
        let (element, why) = match proof.impossible {
            Some(why) => ("skipped", why.to_owned()),
            None if proof.wrong.is_empty() => {
                text.push_str("/>\n");
                continue;
            }
            None => ("failure", proof.wrong.join("; ")),
        };
        let _ = writeln!(text, "><{element} message=\"{}\"/></testcase>", xml(&why));
    }
    text.push_str("  </testsuite>\n</testsuites>\n");
    text
}
