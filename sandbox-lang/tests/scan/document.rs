//! docs/scan.md says what is true.

use std::path::PathBuf;

use sandbox_lang::scan::{Category, Preset, Severity, rules};

fn document() -> String {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let package = package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    std::fs::read_to_string(package.join("../docs/scan.md")).expect("the document")
}

/// The row of the second table for a category, without its name.
fn row(document: &str, category: Category) -> Vec<String> {
    let name = format!("`{category}`");
    let (_, presets) = document.split_once("## Presets").expect("the section");
    let mut rows = presets.lines().filter(|line| line.starts_with('|'));
    let row = rows.find(|line| line.contains(&name)).expect("a row");
    let cells = row.trim_matches('|').split('|').skip(1);
    cells.map(|cell| cell.trim().to_owned()).collect()
}

#[test]
fn presets_have_the_documented_severities() {
    let document = document();
    for category in Category::ALL {
        let cells = row(&document, category);
        for (preset, column) in [
            (Preset::Minimal, 0),
            (Preset::Development, 1),
            (Preset::Production, 2),
            (Preset::Strict, 3),
            (Preset::Educational, 3),
            (Preset::DataScience, 4),
            (Preset::WebScraping, 5),
        ] {
            let severity = preset.policy().severity_of(category);
            let severity = severity.map_or("–", Severity::as_str);
            assert_eq!(cells[column], severity, "{preset} {category}");
        }
    }
}

#[test]
fn every_rule_is_documented() {
    let document = document();
    let categories = Category::ALL.map(Category::as_str);
    let own = rules::ALL.map(|(rule, _)| rule);
    for rule in categories.iter().chain(&own) {
        assert!(document.contains(&format!("`{rule}`")), "{rule}");
    }
}
