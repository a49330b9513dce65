//! The guide shows the toy backend as it is compiled and measured.

use std::path::PathBuf;

#[test]
fn the_guide_shows_what_is_tested() {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let package = package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let read = |path: &str| std::fs::read_to_string(package.join(path)).expect(path);
    let guide = read("../../docs/add-a-backend.md");
    for file in ["backend.rs", "instance.rs", "main.rs"] {
        let code = read(&format!("tests/toy/{file}"));
        assert!(
            guide.contains(&format!("```rust\n{code}```\n")),
            "docs/add-a-backend.md shows another {file} than tests/toy has"
        );
    }
}
