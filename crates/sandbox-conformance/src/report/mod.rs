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
use crate::selfcheck::{MutantCheck, SelfCheck};

/// The version of `report.json`.
pub const VERSION: u32 = 2;

/// Everything of one run.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Whole {
    /// How the suite has proved itself; empty where that was left out.
    pub self_checks: Vec<SelfCheck>,
    /// The mutants; empty where they were left out.
    pub mutants: Vec<MutantCheck>,
    /// What was measured.
    pub tiers: Vec<Report>,
}

impl Whole {
    /// A run of these tiers, without any proof of the suite itself.
    #[must_use]
    pub fn of(tiers: Vec<Report>) -> Self {
        Self {
            tiers,
            ..Self::default()
        }
    }

    /// Whether everything that was found is as claimed, the suite's own proof included.
    #[must_use]
    pub fn is_fine(&self) -> bool {
        self.tiers.iter().all(|report| report.counts().1 == 0)
            && self.self_checks.iter().all(|check| check.wrong.is_empty())
            && !self.mutants.iter().any(MutantCheck::is_wrong)
    }

    /// Every proof with its name and what is wrong with it.
    fn proofs(&self) -> Vec<(String, Vec<String>)> {
        let checks = self
            .self_checks
            .iter()
            .map(|check| (check.name.to_owned(), check.wrong.clone()));
        let mutants = self
            .mutants
            .iter()
            .map(|mutant| (format!("mutant: {}", mutant.name), mutant.wrong()));
        checks.chain(mutants).collect()
    }

    /// How many mutants were caught, and of how many that could be built here.
    #[must_use]
    pub fn score(&self) -> (usize, usize) {
        let caught = self.mutants.iter().filter(|mutant| mutant.is_caught());
        let possible = self
            .mutants
            .iter()
            .filter(|mutant| mutant.impossible.is_none());
        (caught.count(), possible.count())
    }
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    version: u32,
    suite: &'a str,
    self_checks: &'a [SelfCheck],
    mutants: &'a [MutantCheck],
    tiers: &'a [Report],
}

/// Everything of one run as JSON.
///
/// # Errors
///
/// When it cannot be serialised.
pub fn json(whole: &Whole) -> Result<String, Trouble> {
    let document = Document {
        version: VERSION,
        suite: &crate::suite::id(),
        self_checks: &whole.self_checks,
        mutants: &whole.mutants,
        tiers: &whole.tiers,
    };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// Writes `report.json`, `junit.xml` and `report.md` into the folder.
///
/// # Errors
///
/// When the disk refuses.
pub fn write(folder: &Path, whole: &Whole) -> Result<(), Trouble> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("report.json"), json(whole)?)?;
    fs::write(folder.join("junit.xml"), junit(whole))?;
    fs::write(folder.join("report.md"), markdown(whole))?;
    Ok(())
}
