//! The mechanisms of one entry of a report.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::{Mechanism, parse};

/// The mechanisms of one entry of a report, in their order.
///
/// Text and JSON show them as one list of words. Reading that text restores the mechanisms; words
/// of no known mechanism become [`Mechanism::Other`]. Every text is shown again as it was read.
///
/// ```
/// use sandbox_core::{Mechanism, Mechanisms};
///
/// let mechanisms = Mechanisms::from("network namespace, seccomp, luck");
/// assert_eq!(mechanisms[..2], [Mechanism::NetworkNamespace, Mechanism::Seccomp]);
/// assert_eq!(mechanisms[2], Mechanism::Other("luck".into()));
/// assert_eq!(mechanisms.to_string(), "network namespace, seccomp, luck");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Mechanisms(Vec<Mechanism>);

impl Mechanisms {
    /// Adds a mechanism at the end.
    pub fn push(&mut self, mechanism: Mechanism) {
        self.0.push(mechanism);
    }
}

impl Deref for Mechanisms {
    type Target = [Mechanism];

    fn deref(&self) -> &[Mechanism] {
        &self.0
    }
}

impl fmt::Display for Mechanisms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = None;
        for mechanism in &self.0 {
            if let Some(before) = before {
                f.write_str(separator(before, mechanism))?;
            }
            mechanism.fmt(f)?;
            before = Some(mechanism);
        }
        Ok(())
    }
}

/// The text between two mechanisms: remarks are not set off by a comma.
pub(super) fn separator(before: &Mechanism, next: &Mechanism) -> &'static str {
    use Mechanism::*;
    match (before, next) {
        (_, OpenPipes | OpenPipesBelowWritable | FirstRequestChecked | WildcardNames) => " ",
        (_, SystemdScope | UserSystemdScope | SharedWithRuntime(_)) => " ",
        (InterfacesDown, _) | (_, SharedUserCounters | WarmPoolPod(_)) => "; ",
        _ => ", ",
    }
}

impl From<Mechanism> for Mechanisms {
    fn from(mechanism: Mechanism) -> Self {
        Self(vec![mechanism])
    }
}

impl From<Vec<Mechanism>> for Mechanisms {
    fn from(mechanisms: Vec<Mechanism>) -> Self {
        Self(mechanisms)
    }
}

impl<const N: usize> From<[Mechanism; N]> for Mechanisms {
    fn from(mechanisms: [Mechanism; N]) -> Self {
        Self(mechanisms.into())
    }
}

impl From<&str> for Mechanisms {
    fn from(text: &str) -> Self {
        let mechanisms = Self(parse::list(text));
        // Text with another separator is one mechanism, in the words of its backend.
        match mechanisms.to_string() == text {
            true => mechanisms,
            false => Mechanism::Other(text.to_owned().into()).into(),
        }
    }
}

impl From<String> for Mechanisms {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<Mechanisms> for String {
    fn from(mechanisms: Mechanisms) -> Self {
        mechanisms.to_string()
    }
}
