//! Rust.

use super::{FileName, Installer, Language, Project, Step};

pub(super) fn language() -> Language {
    let compile = Step::new(["rustc", "/usr/local/cargo/bin/rustc"]).args([
        "--edition=2021",
        "--color=never",
        "-o",
        "{program}",
        "{options}",
        // Modules beside it are found by their names.
        "{file}",
    ]);
    Language::new("rust", "rs", Step::compiled())
        .alias("rs")
        .file_name(FileName::Main)
        .compile(compile)
        .image("rust:1-slim")
        .package("rustc gcc; what rustup installs in a home is not seen")
        .installer(Installer::Cargo)
        .project(Project::Cargo)
}
