//! TypeScript, with the type stripping of Node.js.

use super::{Installer, Language, Step};

/// The first version that strips types without an option.
const FIRST: (u32, u32) = (22, 18);

pub(super) fn language() -> Language {
    let run = Step::new(["node", "nodejs"]).args([
        // Not the code's warning.
        "--disable-warning=ExperimentalWarning",
        "{file}",
    ]);
    Language::new("typescript", "ts", run)
        .alias("ts")
        .extension("mts")
        .extension("cts")
        .minimum(["--version"], FIRST)
        .image("node:22-slim")
        .installer(Installer::Npm)
        .fix("use an image that has Node.js 22.18 or newer, such as node:22-slim; on the local tiers install it in /usr")
}
