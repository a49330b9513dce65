//! How grave a violation is.

use std::fmt;
use std::str::FromStr;

use sandbox_core::{Error, ErrorKind};
use serde::Serialize;

/// How grave a violation is. A policy's threshold is the lowest severity that makes code unsafe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Low,
    /// Unusual in harmless code.
    Medium,
    /// What the policy exists to keep out.
    High,
}

impl Severity {
    /// All severities, the lowest first.
    pub const ALL: [Self; 3] = [Self::Low, Self::Medium, Self::High];

    /// `low`, `medium` or `high`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Severity {
    type Err = Error;

    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] for another name.
    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|own| own.as_str() == name);
        found.ok_or_else(|| {
            let context = format!("unknown severity {name:?}");
            Error::new(ErrorKind::InvalidRequest, "read severity", context)
                .with_fix("use low, medium or high")
        })
    }
}
