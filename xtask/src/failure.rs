//! The one error type of the tasks: what failed, and what to do about it.

use std::fmt;

/// A failed task. `Display` is a single line unless the text contains the end of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    what: String,
    fix: Option<String>,
}

impl Failure {
    /// A failure that `what` describes in full: the object, the operation and the reason.
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            fix: None,
        }
    }

    /// Adds what the reader should do, as a command or an imperative phrase.
    #[must_use]
    pub fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.what)?;
        match &self.fix {
            Some(fix) => write!(formatter, "; fix: {fix}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

/// Turns any error into a [`Failure`] that says what was being done.
pub trait Context<T> {
    /// Prefixes the error with `doing()`, which is only called on an error.
    ///
    /// # Errors
    ///
    /// The same error, as a [`Failure`].
    fn context(self, doing: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn context(self, doing: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(format!("{}: {error}", doing())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_joins_what_and_fix() {
        let failure = Failure::new("docker: no socket").with_fix("start it");
        assert_eq!(failure.to_string(), "docker: no socket; fix: start it");
        let bare: Result<(), Failure> = Err("denied").context(|| "cannot open /x".to_owned());
        assert_eq!(
            bare.map_err(|e| e.to_string()),
            Err("cannot open /x: denied".to_owned())
        );
    }
}
