//! Reports as SARIF, which code hosts and editors read.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::scan::{Category, ScanReport, Severity, rules};

/// A SARIF 2.1.0 log of reports, each with the path or URI of its file.
///
/// ```
/// let report = sandbox_lang::scan::scan("python", "import subprocess\n")?;
/// let log = sandbox_lang::scan::sarif([("app/main.py", &report)]);
/// assert_eq!(log["version"], "2.1.0");
/// assert_eq!(log["runs"][0]["results"][0]["ruleId"], "process");
/// # Ok::<(), sandbox_core::Error>(())
/// ```
#[must_use]
pub fn sarif<'r>(reports: impl IntoIterator<Item = (&'r str, &'r ScanReport)>) -> Value {
    let reports: Vec<_> = reports.into_iter().collect();
    let violations = || {
        let all = reports.iter();
        all.flat_map(|(file, report)| report.violations.iter().map(move |one| (*file, one)))
    };
    let used = violations().map(|(_, one)| one.rule.as_str());
    let ids: Vec<&str> = used.collect::<BTreeSet<_>>().into_iter().collect();
    let rules = ids.iter().map(|id| {
        json!({
            "id": id,
            "shortDescription": { "text": description(id) },
        })
    });
    let results = violations().map(|(file, one)| {
        json!({
            "ruleId": one.rule,
            "ruleIndex": ids.binary_search(&one.rule.as_str()).ok(),
            "level": level(one.severity),
            "message": { "text": one.description },
            "locations": [{
                "physicalLocation": {
                    "artifactLocation": { "uri": uri(file) },
                    "region": {
                        "startLine": one.line,
                        "startColumn": one.column,
                        "endLine": one.end_line,
                        "endColumn": one.end_column,
                    },
                },
            }],
        })
    });
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {
                "driver": {
                    "name": "sandbox-scan",
                    "semanticVersion": env!("CARGO_PKG_VERSION"),
                    "rules": rules.collect::<Vec<_>>(),
                },
            },
            "columnKind": "unicodeCodePoints",
            "results": results.collect::<Vec<_>>(),
        }],
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Low => "note",
        Severity::Medium => "warning",
        Severity::High => "error",
    }
}

fn description(id: &str) -> String {
    let category = Category::ALL.into_iter().find(|own| own.as_str() == id);
    let own = rules::ALL.iter().find(|(own, _)| *own == id);
    match (category, own) {
        (Some(category), _) => format!("The code {}.", category.description()),
        (None, Some((_, does))) => format!("The code {does}."),
        (None, None) => format!("The code matches the pattern {id}."),
    }
}

/// A path as a relative or absolute reference of a URI.
fn uri(path: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(byte);
    let bytes = path.bytes().map(|byte| match is_plain(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    bytes.collect()
}
