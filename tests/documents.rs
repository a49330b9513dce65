//! Links of the documents lead to files that exist, and the book has every page.

use std::path::{Path, PathBuf};

/// The root of the workspace. Cargo runs tests in the folder of their package, which is this one.
const ROOT: &str = ".";

/// The Markdown files of these folders, relative to the root of the workspace.
fn pages(folders: &[&str]) -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    let mut pages = Vec::new();
    for folder in folders {
        for entry in std::fs::read_dir(root.join(folder)).expect(folder) {
            let path = entry.expect(folder).path();
            if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path.strip_prefix(root).expect("below the root").to_owned());
            }
        }
    }
    pages
}

/// The targets of `[text](target)` in a text, without code.
fn links(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    let parts = prose.flat_map(|part| part.split("](").skip(1));
    parts.filter_map(|rest| rest.split(')').next()).collect()
}

#[test]
fn links_lead_to_files() {
    let folders = ["", "docs", "docs/how-to", "docs/decisions", "examples"];
    let root = Path::new(ROOT);
    let mut broken = Vec::new();
    let mut checked = 0;
    for page in pages(&folders) {
        let text = std::fs::read_to_string(root.join(&page)).expect("a page");
        for link in links(&text) {
            let target = link.split('#').next().unwrap_or_default();
            if target.is_empty() || link.contains("://") {
                continue;
            }
            checked += 1;
            let base = root.join(page.parent().expect("a folder"));
            if !base.join(target).exists() {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(checked > 100, "only {checked} links were found");
}

#[test]
fn the_book_has_every_page() {
    let root = Path::new(ROOT);
    let summary = std::fs::read_to_string(root.join("docs/SUMMARY.md")).expect("the summary");
    let listed = links(&summary);
    for page in pages(&["docs", "docs/how-to"]) {
        let name = page.strip_prefix("docs").expect("below docs");
        let is_listed = listed.iter().any(|link| Path::new(link) == name);
        assert!(is_listed || name == Path::new("SUMMARY.md"), "{name:?}");
    }
}
