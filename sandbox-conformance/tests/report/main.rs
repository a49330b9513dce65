//! Reports: that JSON keeps to its schema, and that the page is what a browser, a phone, a keyboard and a careful reader need.

mod browser;
mod sample;
mod schema;

use sandbox_conformance::report::{self, Change, Compared};
use serde_json::Value;

fn published() -> Value {
    // At compile time: an ordinary user may not enter root's checkout.
    let text = include_str!("../../../docs/conformance-report.schema.json");
    serde_json::from_str(text).expect("the schema is JSON")
}

#[test]
fn a_report_keeps_to_the_published_schema() {
    let text = report::json(&sample::whole()).expect("a report");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let violations = schema::violations(&published(), &value);
    assert!(
        violations.is_empty(),
        "{:#?}",
        &violations[..violations.len().min(5)]
    );
}

#[test]
fn the_schema_refuses_what_is_no_report() {
    let text = report::json(&sample::whole()).expect("a report");
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

#[test]
fn nothing_of_a_guest_becomes_a_part_of_a_document() {
    let whole = sample::whole();
    let change = Change {
        tier: sample::HOSTILE.into(),
        probe: sample::HOSTILE.into(),
        before: Some(sample::HOSTILE.into()),
        now: None,
    };
    let compared = Compared {
        changes: vec![change],
        tiers_only_now: vec![sample::HOSTILE.into()],
    };
    let page = report::page(&whole, Some(&compared));
    for text in [&page, &report::junit(&whole), &report::markdown(&whole)] {
        assert!(!text.contains("<script") && !text.contains("<img"));
        assert!(!text.contains(['\u{1b}', '\u{202e}']));
    }
    assert!(page.contains("default-src &#39;none&#39;") || page.contains("default-src 'none'"));
}

#[test]
fn the_first_of_runs_that_disagree_is_kept() {
    let whole = sample::whole();
    let flaky = "<summary>run 1: <b>leaked</b></summary>";
    let page = report::page(&whole, None);
    let first = page.split(flaky).nth(1).expect("a first run");
    let (evidence, _) = first.split_once("</details>").expect("an end");
    assert!(evidence.contains(sample::FIRST_RUN), "{evidence}");
    let text = report::json(&whole).expect("a report");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let findings = value["tiers"][0]["findings"].as_array().expect("findings");
    let finding = findings
        .iter()
        .find(|finding| finding["verdict"] == "flaky");
    let runs = &finding.expect("a flaky one")["repetitions"];
    assert_eq!(runs[0]["evidence"]["attack"]["action"], sample::FIRST_RUN);
    assert_eq!(runs.as_array().map(Vec::len), Some(2));
}

#[test]
fn every_cell_leads_to_evidence() {
    let page = report::page(&sample::whole(), None);
    let mut links = 0;
    for piece in page.split("href=\"#").skip(1) {
        let (target, _) = piece.split_once('"').expect("an end");
        assert!(page.contains(&format!("id=\"{target}\"")), "{target}");
        links += 1;
    }
    assert!(links > 40, "{links}");
}
