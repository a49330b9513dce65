//! Ruby.

use super::{Installer, Language, Step};

pub(super) fn language() -> Language {
    let run = Step::new(["ruby"]).args(["{file}"]);
    Language::new("ruby", "rb", run)
        .alias("rb")
        .inline(["-e", "{code}", "--"])
        .image("ruby:3.3-slim")
        .package("ruby")
        .installer(Installer::Gem)
}
