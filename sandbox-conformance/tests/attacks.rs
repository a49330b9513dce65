//! Checks that the catalog of attacks names existing probes.

use std::collections::BTreeSet;
use std::path::Path;
/// The root of the workspace. Cargo runs tests in the folder of their package.
const ROOT: &str = "..";

fn catalog() -> String {
    std::fs::read_to_string(Path::new(ROOT).join("docs/attacks.md")).expect("the catalog")
}

/// The texts between backticks.
fn named(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_probe_in_the_catalog_exists() {
    let probes = sandbox_conformance::probes::all();
    let ids: BTreeSet<&str> = probes.iter().map(|probe| probe.id).collect();
    let text = catalog();
    let named = named(&text);
    let named = named
        .iter()
        .filter(|word| word.contains("::") && !word.contains(' '));
    let missing: Vec<_> = named.filter(|word| !ids.contains(**word)).collect();
    assert!(missing.is_empty(), "no such probes: {missing:?}");
}

#[test]
fn every_file_in_the_catalog_exists() {
    let text = catalog();
    let named = named(&text);
    let files = named
        .iter()
        .filter(|word| word.starts_with("sandbox-") && word.contains('/'));
    let missing: Vec<_> = files
        .filter(|file| !Path::new(ROOT).join(file).exists())
        .collect();
    assert!(missing.is_empty(), "no such files: {missing:?}");
}

#[test]
fn attack_numbers_are_unique() {
    let text = catalog();
    let starts = text.lines().filter_map(|line| line.split_once(". **"));
    let mut numbers: Vec<u32> = starts
        .map(|(number, _)| number.parse().expect("a number"))
        .collect();
    numbers.sort_unstable();
    assert!(!numbers.is_empty());
    assert_eq!(numbers, (1..).take(numbers.len()).collect::<Vec<_>>());
}
