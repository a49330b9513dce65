//! How an execution ended.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How an execution ended. Code that fails is an outcome, not an [`crate::Error`]. Partial output
/// is always kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The program exited with this code.
    Exited {
        /// 0 to 255; 0 is success.
        code: i32,
    },
    /// A signal ended the program, but not because of a limit of the sandbox.
    Signaled {
        /// The signal's number.
        signal: i32,
    },
    /// The time limit was reached; the whole tree was killed.
    TimedOut,
    /// The kernel killed the program because the sandbox reached its memory limit.
    ///
    /// The program ended by signal 9, and the kernel counted an out-of-memory kill while it ran.
    /// The count does not say which of several concurrent executions the process belonged to.
    OutOfMemory,
    /// The program wrote far more output than is kept, and was killed.
    OutputLimit,
    /// It is not known how the program ended. Never counts as success.
    Unknown {
        /// What is known.
        reason: String,
    },
}

impl Outcome {
    /// The exit code if the program exited by itself. A missing exit code is `None`, never 0.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Exited { code } => Some(*code),
            _ => None,
        }
    }

    /// Whether the program exited with code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.exit_code() == Some(0)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exited with code {code}"),
            Self::Signaled { signal } => write!(f, "ended by signal {signal}"),
            Self::TimedOut => f.write_str("timed out"),
            Self::OutOfMemory => f.write_str("out of memory"),
            Self::OutputLimit => f.write_str("output limit exceeded"),
            Self::Unknown { reason } => write!(f, "unknown: {reason}"),
        }
    }
}
