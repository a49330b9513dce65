//! The POSIX shell, and bash.

use super::{Language, Step};

pub(super) fn sh() -> Language {
    let run = Step::new(["/bin/sh", "sh"]).args(["{file}"]);
    Language::new("sh", "sh", run)
        .alias("shell")
        // The first argument after the code is the script's name.
        .inline(["-c", "{code}", "sh"])
        .package("dash")
}

pub(super) fn bash() -> Language {
    let run = Step::new(["bash", "/bin/bash"]).args(["{file}"]);
    Language::new("bash", "bash", run)
        .inline(["-c", "{code}", "bash"])
        .package("bash")
}
