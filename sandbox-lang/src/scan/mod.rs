//! An advisory scan of code, before it runs.
//!
//! **A scan isolates nothing.** It reads code and says what the code seems to do. Code that wants to
//! hide something from a scan can: it can compute names, load data and run it. Only a sandbox
//! limits what code does. A scan gives a quick and clear answer about code that is not hostile, such
//! as that of a model or a student, and a second line of defense against the rest.
//!
//! ```
//! use sandbox_lang::scan::{Preset, Severity};
//!
//! let code = "import subprocess\nsubprocess.run(['ls'])\n";
//! let report = Preset::Production.policy().scan("python", code)?;
//! assert!(!report.is_safe());
//! let first = &report.violations[0];
//! assert_eq!((first.line, first.column, first.severity), (1, 8, Severity::High));
//! assert_eq!(first.to_string(), "1:8: high: `subprocess` starts, replaces or signals processes [process]");
//! # Ok::<(), sandbox_core::Error>(())
//! ```
//!
//! The scan works on the syntax tree. It knows the names that imports and assignments give, constant
//! texts, and the usual ways to load a module or to get a member by a name. It reports every
//! violation. Code that it cannot read is a violation too.
//!
//! [`ScanPolicy`] implements [`CodeCheck`](crate::CodeCheck), so that code which fails is never run:
//!
//! ```
//! use sandbox_lang::CodeRequest;
//! use sandbox_lang::scan::Preset;
//!
//! let request = CodeRequest::new("python", "print(6 * 7)").check(Preset::Strict.policy());
//! # let _ = request;
//! ```

mod category;
mod check;
mod judge;
mod pattern;
mod policy;
mod preset;
mod report;
pub mod rules;
mod sarif;
mod severity;
mod syntax;

pub use category::Category;
pub use pattern::{Pattern, RestrictedModule};
pub use policy::ScanPolicy;
pub use preset::Preset;
pub use report::{ScanReport, Violation};
pub use sarif::sarif;
pub use severity::Severity;

use sandbox_core::Result;

/// The largest code that is scanned, in bytes. Larger code is a violation.
pub const MAX_CODE: usize = 1 << 20;

/// The most violations in a report.
pub const MAX_VIOLATIONS: usize = 1000;

/// Scans code with [`Preset::Production`].
///
/// # Errors
///
/// As [`ScanPolicy::scan`].
pub fn scan(language: &str, code: impl AsRef<[u8]>) -> Result<ScanReport> {
    Preset::Production.policy().scan(language, code)
}
