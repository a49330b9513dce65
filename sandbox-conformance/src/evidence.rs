//! The evidence of a probe, step by step. A verdict is computed from it.

use sandbox_core::{Enforcement, Unmet};
use serde::Serialize;

/// The start of the sign of a step that an unavailable backend stopped.
pub(crate) const UNAVAILABLE: &str = "error:sandbox_unavailable";

/// The result of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Attempt {
    /// The operation succeeded.
    Succeeded {
        /// The value that it returned; empty if it returned none.
        value: String,
    },
    /// The operation was denied.
    Blocked {
        /// The names of errors (`EACCES`) or endings (`timed_out`, `signal:9`), sorted, without
        /// duplicates.
        signature: Vec<String>,
    },
    /// The step ended in a way that shows neither.
    Unclear {
        /// What happened.
        detail: String,
    },
}

impl Attempt {
    /// Success without a value.
    #[must_use]
    pub fn succeeded() -> Self {
        Self::Succeeded {
            value: String::new(),
        }
    }

    /// Denied with `signs`.
    pub fn blocked<S: Into<String>>(signs: impl IntoIterator<Item = S>) -> Self {
        let mut signature: Vec<String> = signs.into_iter().map(Into::into).collect();
        signature.sort();
        signature.dedup();
        Self::Blocked { signature }
    }

    /// Whether the step shows nothing about the backend: it ended unclear, or the backend was
    /// unavailable meanwhile.
    #[must_use]
    pub fn shows_nothing(&self) -> bool {
        match self {
            Self::Succeeded { .. } => false,
            Self::Blocked { signature } => {
                signature.iter().any(|sign| sign.starts_with(UNAVAILABLE))
            }
            Self::Unclear { .. } => true,
        }
    }

    /// Neither success nor a denial.
    pub fn unclear(detail: impl Into<String>) -> Self {
        Self::Unclear {
            detail: detail.into(),
        }
    }

    /// [`Attempt::Succeeded`] if `test` holds, else denied with `sign`.
    #[must_use]
    pub fn leak_if(test: bool, sign: &str) -> Self {
        if test {
            Self::succeeded()
        } else {
            Self::blocked([sign])
        }
    }

    /// [`Attempt::Succeeded`] if `test` holds, else unclear.
    pub fn expect(test: bool, otherwise: impl FnOnce() -> String) -> Self {
        if test {
            Self::succeeded()
        } else {
            Self::unclear(otherwise())
        }
    }

    /// Whether the operation succeeded.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Succeeded { .. })
    }
}

/// One step: what it ran and the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The arguments of the probe program, or a phrase.
    pub action: String,
    /// The result.
    pub attempt: Attempt,
    /// How the program ended, if one ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The last 2 KiB of standard output, as text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stdout: String,
    /// The last 2 KiB of standard error, as text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// Duration in milliseconds.
    pub milliseconds: u64,
}

impl Step {
    /// A step that ran no program.
    pub fn new(action: impl Into<String>, attempt: Attempt) -> Self {
        Self {
            action: action.into(),
            attempt,
            outcome: None,
            stdout: String::new(),
            stderr: String::new(),
            milliseconds: 0,
        }
    }
}

/// A check of the host after the attack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum HostCheck {
    /// The host is unchanged.
    Clean {
        /// What was checked.
        watched: String,
    },
    /// The attack changed the host.
    Dirty {
        /// What was checked.
        watched: String,
    },
    /// The attack cannot leave anything on the host.
    Nothing {
        /// The reason.
        reason: String,
    },
}

/// Everything that a probe observed on one tier.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// A: the attack without a sandbox.
    pub host_control: Option<Step>,
    /// B: what the policy permits, inside the sandbox.
    pub allow_control: Option<Step>,
    /// C: the attack inside the sandbox.
    pub attack: Option<Step>,
    /// O: the checks of the host afterwards.
    #[serde(rename = "oracles")]
    pub host_checks: Vec<HostCheck>,
    /// What the backend declares for the probe's subject in the attacked sandbox.
    pub declared: Option<Enforcement>,
    /// Whether the tier applies policies. Such a tier must refuse what it declares unenforced,
    /// until that is waived.
    pub gated: bool,
    /// The demands that were waived because the backend refused to create the sandbox with them.
    pub waived: Vec<Unmet>,
    /// The waived demands that the backend had assessed as enforced.
    #[serde(rename = "unkept")]
    pub broken_claims: Vec<Unmet>,
    /// Why the backend refused to create the sandbox, even with waivers.
    pub refused: Option<String>,
    /// Why the probe did not run.
    pub not_run: Option<String>,
    /// Why the probe itself failed or was cut short.
    #[serde(rename = "trouble")]
    pub error: Option<String>,
}
