//! What a scan looks for.

use std::collections::{BTreeMap, BTreeSet};

use sandbox_core::Result;

use crate::scan::pattern::{Pattern, RestrictedModule};
use crate::scan::{Category, ScanReport, Severity, judge};

/// What a scan looks for, and which severity makes code unsafe.
///
/// A scan is advisory and isolates nothing: see [the module](crate::scan).
///
/// ```
/// use sandbox_lang::scan::{Preset, ScanPolicy};
///
/// let policy = ScanPolicy::new().restrict("os");
/// let report = policy.scan("python", "x='#';import os")?;
/// assert!(!report.is_safe());
/// assert_eq!(report.violations[0].column, 14);
///
/// let policy = Preset::Production.policy().allow(["math", "json"]);
/// assert!(policy.scan("python", "import math\nprint(math.pi)")?.is_safe());
/// # Ok::<(), sandbox_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ScanPolicy {
    pub(crate) threshold: Severity,
    pub(crate) categories: BTreeMap<Category, Severity>,
    pub(crate) restricted: Vec<RestrictedModule>,
    pub(crate) allowed: Option<BTreeSet<String>>,
    pub(crate) patterns: Vec<Pattern>,
}

impl Default for ScanPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl ScanPolicy {
    /// No category, module or pattern, and the threshold [`Severity::Low`]. It still finds code that
    /// cannot be scanned.
    #[must_use]
    pub fn new() -> Self {
        Self {
            threshold: Severity::Low,
            categories: BTreeMap::new(),
            restricted: Vec::new(),
            allowed: None,
            patterns: Vec::new(),
        }
    }

    /// Sets the lowest severity that makes code unsafe.
    #[must_use]
    pub fn threshold(mut self, threshold: Severity) -> Self {
        self.threshold = threshold;
        self
    }

    /// Looks for a category.
    #[must_use]
    pub fn category(mut self, category: Category, severity: Severity) -> Self {
        self.categories.insert(category, severity);
        self
    }

    /// No longer looks for a category.
    #[must_use]
    pub fn without_category(mut self, category: Category) -> Self {
        self.categories.remove(&category);
        self
    }

    /// The severity of a category; `None` if the scan does not look for it.
    #[must_use]
    pub fn severity_of(&self, category: Category) -> Option<Severity> {
        self.categories.get(&category).copied()
    }

    /// Restricts a module, with everything below it. What counts as a module of each language is in
    /// docs/scan.md.
    #[must_use]
    pub fn restrict(mut self, module: impl Into<RestrictedModule>) -> Self {
        self.restricted.push(module.into());
        self
    }

    /// Allows only these modules, with everything below them, and those of earlier calls. Without a
    /// call every module is allowed; after a call with none, no module is. A module that is also
    /// restricted is not allowed.
    #[must_use]
    pub fn allow(mut self, modules: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let allowed = self.allowed.get_or_insert_default();
        allowed.extend(modules.into_iter().map(Into::into));
        self
    }

    /// Adds a pattern: see [`Self::add_pattern`].
    #[must_use]
    pub fn pattern(mut self, pattern: Pattern) -> Self {
        self.add_pattern(pattern);
        self
    }

    /// Adds a pattern.
    pub fn add_pattern(&mut self, pattern: Pattern) {
        self.patterns.push(pattern);
    }

    /// Scans code of a language: a name or alias, as in [`Languages`](crate::Languages).
    ///
    /// The report is complete for any bytes. Code that cannot be read is a violation.
    ///
    /// # Errors
    ///
    /// [`sandbox_core::ErrorKind::LanguageNotSupported`] for a language that cannot be scanned.
    pub fn scan(&self, language: &str, code: impl AsRef<[u8]>) -> Result<ScanReport> {
        judge::scan(self, language, code.as_ref())
    }

    /// Whether a module's load is judged, so that a computed name matters.
    pub(crate) fn judges_modules(&self) -> bool {
        self.allowed.is_some() || !self.restricted.is_empty()
    }
}
