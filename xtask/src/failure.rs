//! The one error type of the tasks.

use std::fmt;

/// A failed task. `Display` is a single line unless the text contains the end of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(String);

impl Failure {
    /// A failure that `what` describes in full: the object, the operation and the reason. What the
    /// reader should do, if anything, follows behind `; fix: `.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Turns any error into a [`Failure`] that says what was being done.
pub trait Context<T> {
    /// Prefixes the error with `doing()`, which is only called on an error.
    ///
    /// # Errors
    ///
    /// The same error, as a [`Failure`].
    fn context<D: fmt::Display>(self, doing: impl FnOnce() -> D) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn context<D: fmt::Display>(self, doing: impl FnOnce() -> D) -> Result<T, Failure> {
        self.map_err(|error| Failure(format!("{}: {error}", doing())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_precedes_the_error() {
        let failed: Result<(), Failure> = Err("denied").context(|| "cannot open /x");
        assert_eq!(failed, Err(Failure::new("cannot open /x: denied")));
    }
}
