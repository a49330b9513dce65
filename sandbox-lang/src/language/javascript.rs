//! JavaScript, with Node.js.

use super::{Installer, Language, Step};

pub(super) fn language() -> Language {
    let run = Step::new(["node", "nodejs"]).args(["{file}"]);
    Language::new("javascript", "js", run)
        .alias("js")
        .alias("node")
        .alias("nodejs")
        .extension("mjs")
        .extension("cjs")
        // Otherwise node would read the arguments as its own options.
        .inline(["-e", "{code}", "--"])
        .image("node:22-slim")
        .package("nodejs")
        .installer(Installer::Npm)
}
