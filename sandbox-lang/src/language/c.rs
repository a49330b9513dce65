//! C.

use super::{FileName, Language, Step};

pub(super) fn language() -> Language {
    let compile = Step::new(["cc", "gcc", "clang"]).args([
        "-o",
        "{program}",
        "{sources}",
        "{options}",
        "-lm",
    ]);
    Language::new("c", "c", Step::compiled())
        .file_name(FileName::Main)
        .compile(compile)
        .image("gcc:14")
        .package("gcc libc6-dev")
}
