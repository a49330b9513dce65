//! What a scan found.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use sandbox_core::{Error, ErrorKind, Result};
use serde::Serialize;

use crate::scan::Severity;

/// What a scan of one text found. A clean report is no proof: see [the module](crate::scan).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScanReport {
    /// The language's name.
    pub language: &'static str,
    /// The policy's threshold.
    pub threshold: Severity,
    /// The violations by position; at most [`crate::scan::MAX_VIOLATIONS`], the gravest.
    pub violations: Vec<Violation>,
    /// How many more there were.
    pub omitted: usize,
}

/// A place where code breaks a rule. Lines and columns start at 1, and columns count characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Violation {
    /// The line in which it starts.
    pub line: usize,
    /// The column at which it starts.
    pub column: usize,
    /// The line in which it ends.
    pub end_line: usize,
    /// The column after its last character.
    pub end_column: usize,
    /// The identifier of the rule: a category's, a pattern's, or one of [`crate::scan::rules`].
    pub rule: String,
    /// How grave it is.
    pub severity: Severity,
    /// What the code does, in one line.
    pub description: String,
}

impl ScanReport {
    /// Whether no violation reaches the threshold.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        self.refused().next().is_none()
    }

    /// The violations that reach the threshold.
    pub fn refused(&self) -> impl Iterator<Item = &Violation> {
        self.violations
            .iter()
            .filter(|violation| violation.severity >= self.threshold)
    }

    /// The report itself if the code is safe by it. `file` is named in the error.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::CodeRefused`] with the first violation that reaches the threshold, and how many
    /// more do.
    pub fn check(&self, file: &str) -> Result<&Self> {
        let Some(first) = self.refused().next() else {
            return Ok(self);
        };
        let context = match self.refused().count() - 1 {
            0 => format!("{file}:{first}"),
            more => format!("{file}:{first} (and {more} more)"),
        };
        Err(Error::new(ErrorKind::CodeRefused, "scan code", context)
            .with_fix("change the code, or the policy of the scan"))
    }
}

/// `LINE:COLUMN: SEVERITY: DESCRIPTION [RULE]`
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            column,
            severity,
            description,
            rule,
            ..
        } = self;
        write!(f, "{line}:{column}: {severity}: {description} [{rule}]")
    }
}

/// The lines and columns of places in bytes.
pub(crate) fn positions(code: &[u8], places: BTreeSet<usize>) -> HashMap<usize, (usize, usize)> {
    let (mut line, mut column, mut at) = (1, 1, 0);
    let mut positions = HashMap::new();
    for place in places {
        for byte in code.get(at..place).unwrap_or_default() {
            match byte {
                b'\n' => (line, column) = (line + 1, 1),
                // The rest of a character.
                0x80..=0xbf => {}
                _ => column += 1,
            }
        }
        at = place;
        positions.insert(place, (line, column));
    }
    positions
}
