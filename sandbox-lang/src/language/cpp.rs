//! C++.

use super::{FileName, Language, Step};

pub(super) fn language() -> Language {
    let compile = Step::new(["c++", "g++", "clang++"]).args([
        "-std=c++17",
        "-o",
        "{program}",
        "{sources}",
        "{options}",
    ]);
    Language::new("cpp", "cpp", Step::compiled())
        .alias("c++")
        .alias("cxx")
        .extension("cc")
        .extension("cxx")
        .file_name(FileName::Main)
        .compile(compile)
        .image("gcc:14")
        .package("g++")
}
