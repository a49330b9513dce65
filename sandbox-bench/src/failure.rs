//! The one error type: a line that says what failed and why.

use std::fmt;

/// What a fallible step returns.
pub type Result<T> = std::result::Result<T, Failure>;

/// A measurement that could not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// What is measured is not on this machine; no fault.
    Missing(String),
    /// It is there, and failed.
    Failed(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(text) | Self::Failed(text) => formatter.write_str(text),
        }
    }
}

/// Turns any error into a [`Failure`] that says what was being done.
pub trait Context<T> {
    /// Prefixes the error with `doing`.
    ///
    /// # Errors
    /// The same error, as [`Failure::Failed`].
    fn context(self, doing: &str) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, doing: &str) -> Result<T> {
        self.map_err(|error| Failure::Failed(format!("{doing}: {error}")))
    }
}
