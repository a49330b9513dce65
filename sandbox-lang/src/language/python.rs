//! Python.

use super::{Installer, Language, Step};

pub(super) fn language() -> Language {
    let run = Step::new(["python3", "python"]).args(["{file}"]);
    Language::new("python", "py", run)
        .alias("py")
        .alias("python3")
        .inline(["-c", "{code}"])
        .package("python3")
        .installer(Installer::Pip)
        .plots(["matplotlib", "seaborn", "plotly"])
}
