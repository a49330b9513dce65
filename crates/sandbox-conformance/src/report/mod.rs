//! Reports: JSON with all evidence, JUnit XML, Markdown, and tables for a terminal.

mod escape;
mod junit;
mod markdown;
mod text;

use std::fs;
use std::path::Path;

use serde::Serialize;

pub use escape::printable;
pub use junit::junit;
pub use markdown::markdown;
pub use text::{line, summary};

use crate::finding::Report;
use crate::probe::Trouble;
use crate::selfcheck::SelfCheck;

/// Everything of one run.
#[derive(Debug, Serialize)]
struct Whole<'a> {
    version: u32,
    suite: &'a str,
    self_checks: &'a [SelfCheck],
    tiers: &'a [Report],
}

/// Writes `report.json`, `junit.xml` and `report.md` into the folder.
///
/// # Errors
///
/// When the disk refuses.
pub fn write(folder: &Path, reports: &[Report], self_checks: &[SelfCheck]) -> Result<(), Trouble> {
    fs::create_dir_all(folder)?;
    let suite = crate::suite::id();
    let whole = Whole {
        version: 1,
        suite: &suite,
        self_checks,
        tiers: reports,
    };
    fs::write(
        folder.join("report.json"),
        serde_json::to_string_pretty(&whole)? + "\n",
    )?;
    fs::write(folder.join("junit.xml"), junit(reports, self_checks))?;
    fs::write(folder.join("report.md"), markdown(reports, self_checks))?;
    Ok(())
}
