//! Reports: JSON matches its schema, and the page works in a browser, on a phone and with a
//! keyboard.

mod browser;
mod sample;
mod schema;

use std::process::ExitCode;

use sandbox_conformance::report::{self, ReportDiff, ResultChange};
use sandbox_testing::{named_tests, requirements::fail_if_required, trials};
use serde_json::Value;

fn main() -> ExitCode {
    let missing = browser::missing();
    if let Some(code) = fail_if_required(browser::REQUIRED, missing.as_deref()) {
        return code;
    }
    trials::main(&[
        (
            None,
            named_tests![
                report_matches_the_published_schema,
                schema_rejects_invalid_reports,
                sandbox_output_is_escaped_in_every_document,
                first_disagreeing_run_is_kept,
                every_matrix_cell_links_to_evidence,
            ],
        ),
        (
            missing.as_deref(),
            named_tests![browser::page_works_on_a_phone_and_by_keyboard],
        ),
    ])
}

fn published() -> Value {
    // Included at compile time, because an ordinary user may not be able to read root's checkout.
    let text = include_str!("../../../docs/conformance-report.schema.json");
    serde_json::from_str(text).expect("the schema is JSON")
}

fn report_matches_the_published_schema() {
    let text = report::json(&sample::results()).expect("a report");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let violations = schema::violations(&published(), &value);
    assert!(
        violations.is_empty(),
        "{:#?}",
        &violations[..violations.len().min(5)]
    );
}

fn schema_rejects_invalid_reports() {
    let text = report::json(&sample::results()).expect("a report");
    let right: Value = serde_json::from_str(&text).expect("JSON");
    let wrong = |change: fn(&mut Value)| {
        let mut value = right.clone();
        change(&mut value);
        schema::violations(&published(), &value).len()
    };
    assert_eq!(wrong(|report| report["version"] = 2.into()), 1);
    assert_eq!(wrong(|report| report["more"] = 1.into()), 1);
    assert_eq!(
        wrong(|report| report["tiers"][0]["findings"][0]["verdict"] = "fine".into()),
        1
    );
    assert_eq!(
        wrong(|report| {
            report["tiers"][0]["findings"][0]["repetitions"] = serde_json::json!(["leaked"]);
        }),
        1
    );
}

fn sandbox_output_is_escaped_in_every_document() {
    let results = sample::results();
    let change = ResultChange {
        tier: sample::HOSTILE.into(),
        probe: sample::HOSTILE.into(),
        before: Some(sample::HOSTILE.into()),
        now: None,
    };
    let diff = ReportDiff {
        changes: vec![change],
        tiers_only_now: vec![sample::HOSTILE.into()],
    };
    let page = report::page(&results, Some(&diff));
    for text in [&page, &report::junit(&results), &report::markdown(&results)] {
        assert!(!text.contains("<script") && !text.contains("<img"));
        assert!(!text.contains(['\u{1b}', '\u{202e}']));
    }
    assert!(page.contains("default-src &#39;none&#39;") || page.contains("default-src 'none'"));
}

fn first_disagreeing_run_is_kept() {
    let results = sample::results();
    let flaky = "<summary>run 1: <b>leaked</b></summary>";
    let page = report::page(&results, None);
    let first = page.split(flaky).nth(1).expect("a first run");
    let (evidence, _) = first.split_once("</details>").expect("an end");
    assert!(evidence.contains(sample::FIRST_RUN), "{evidence}");
    let text = report::json(&results).expect("a report");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let findings = value["tiers"][0]["findings"].as_array().expect("findings");
    let finding = findings
        .iter()
        .find(|finding| finding["verdict"] == "flaky");
    let runs = &finding.expect("a flaky one")["repetitions"];
    assert_eq!(runs[0]["evidence"]["attack"]["action"], sample::FIRST_RUN);
    assert_eq!(runs.as_array().map(Vec::len), Some(2));
}

fn every_matrix_cell_links_to_evidence() {
    let page = report::page(&sample::results(), None);
    let mut links = 0;
    for output in page.split("href=\"#").skip(1) {
        let (target, _) = output.split_once('"').expect("an end");
        assert!(page.contains(&format!("id=\"{target}\"")), "{target}");
        links += 1;
    }
    assert!(links > 40, "{links}");
}
