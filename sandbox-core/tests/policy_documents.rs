//! Checks the documentation of policy files.

use std::path::{Path, PathBuf};

use sandbox_core::policy::{PolicyFile, json_schema};
use sandbox_core::{CapabilityPolicy, Result};

fn document(name: &str) -> PathBuf {
    // Cargo runs tests in the folder of their package.
    Path::new("../docs").join(name)
}

/// The fenced code blocks of a document: the info string and the text of each.
fn blocks(markdown: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut lines = markdown.lines();
    while let Some(line) = lines.next() {
        if let Some(info) = line.strip_prefix("```") {
            let text = lines.by_ref().take_while(|line| *line != "```");
            blocks.push((info.to_owned(), text.collect::<Vec<_>>().join("\n")));
        }
    }
    blocks
}

fn read(info: &str, text: &str) -> Result<CapabilityPolicy> {
    let file = if info.starts_with("json") {
        PolicyFile::from_json(text)
    } else {
        PolicyFile::from_toml(text)
    };
    file?.resolve()
}

#[test]
fn examples_are_accepted_or_refused_as_documented() {
    let text = std::fs::read_to_string(document("policy.md")).unwrap();
    let mut seen = (0, 0);
    for (info, example) in blocks(&text) {
        match info.as_str() {
            "toml" | "json" => {
                seen.0 += 1;
                assert!(
                    read(&info, &example).is_ok(),
                    "{example}\n{:?}",
                    read(&info, &example)
                );
            }
            "toml refused" => {
                seen.1 += 1;
                assert!(read(&info, &example).is_err(), "{example}");
            }
            "console" | "rust,no_run" => {}
            other => panic!("a block of an unknown kind: {other:?}"),
        }
    }
    assert!(seen.0 >= 5 && seen.1 >= 2, "{seen:?}");
}

#[test]
fn every_field_is_documented() {
    let text = std::fs::read_to_string(document("policy.md")).unwrap();
    let table = text
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect::<Vec<_>>()
        .join("\n");
    let schema = json_schema();
    for field in schema["properties"].as_object().unwrap().keys() {
        assert!(
            table.contains(&format!("`{field}`")),
            "{field} is not in docs/policy.md"
        );
    }
}

/// `UPDATE=1 cargo test -p sandbox-core --test policy_documents` writes the file.
#[test]
fn published_schema_is_up_to_date() {
    let path = document("policy.schema.json");
    let generated = format!("{:#}\n", json_schema());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        published == generated,
        "docs/policy.schema.json is out of date: run this test with UPDATE=1"
    );
}
