//! R.

use super::{Installer, Language, Step};

pub(super) fn language() -> Language {
    let run = Step::new(["Rscript"]).args(["{file}"]);
    Language::new("r", "R", run)
        .alias("rscript")
        .extension("r")
        .inline(["-e", "{code}"])
        .image("rocker/r-ver:4.5")
        .package("r-base-core")
        .installer(Installer::Cran)
        .plots(["graphics", "ggplot2", "lattice", "plotly"])
}
