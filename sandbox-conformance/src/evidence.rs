//! What a probe saw, step by step: the raw material of a verdict.

use sandbox_core::{Enforcement, Unmet};
use serde::Serialize;

/// How one step of a probe went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Attempt {
    /// The operation went through.
    Succeeded {
        /// What it yielded; empty where success says it all.
        value: String,
    },
    /// The operation was stopped.
    Blocked {
        /// By what it could be told: names of errors (`EACCES`) or ends (`timed_out`, `signal:9`), sorted, each once.
        signature: Vec<String>,
    },
    /// The step ended in a way that says neither.
    Unclear {
        /// What happened.
        detail: String,
    },
}

impl Attempt {
    /// Went through, with nothing more to say.
    #[must_use]
    pub fn succeeded() -> Self {
        Self::Succeeded {
            value: String::new(),
        }
    }

    /// Stopped, as told by `signs`.
    pub fn blocked<S: Into<String>>(signs: impl IntoIterator<Item = S>) -> Self {
        let mut signature: Vec<String> = signs.into_iter().map(Into::into).collect();
        signature.sort();
        signature.dedup();
        Self::Blocked { signature }
    }

    /// Says neither.
    pub fn unclear(detail: impl Into<String>) -> Self {
        Self::Unclear {
            detail: detail.into(),
        }
    }

    /// [`Attempt::Succeeded`] where `test` holds, else stopped with `sign`.
    #[must_use]
    pub fn leak_if(test: bool, sign: &str) -> Self {
        if test {
            Self::succeeded()
        } else {
            Self::blocked([sign])
        }
    }

    /// [`Attempt::Succeeded`] where `test` holds, else unclear.
    pub fn expect(test: bool, otherwise: impl FnOnce() -> String) -> Self {
        if test {
            Self::succeeded()
        } else {
            Self::unclear(otherwise())
        }
    }

    /// Whether it went through.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Succeeded { .. })
    }
}

/// A step with what it ran and what came out of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What was done: the probe program's arguments, or a sentence.
    pub action: String,
    /// How it went.
    pub attempt: Attempt,
    /// How the program ended, where one ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The end of its standard output, at most 2 KiB, as text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stdout: String,
    /// The end of its standard error, at most 2 KiB, as text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// How long it took.
    pub milliseconds: u64,
}

impl Step {
    /// A step without a program.
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

/// What the host looks like after the attack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Oracle {
    /// Untouched.
    Clean {
        /// What was looked at.
        watched: String,
    },
    /// Touched.
    Dirty {
        /// What was looked at.
        watched: String,
    },
    /// The attack leaves nothing on the host that could be looked at.
    Nothing {
        /// Why.
        reason: String,
    },
}

/// Everything that a probe saw on one tier.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// A: the attack without the sandbox.
    pub host_control: Option<Step>,
    /// B: what the policy permits, inside of the sandbox.
    pub allow_control: Option<Step>,
    /// C: the attack inside of the sandbox.
    pub attack: Option<Step>,
    /// O: what the host looks like afterwards.
    pub oracles: Vec<Oracle>,
    /// What the backend declared of the probe's subject in the sandbox that was attacked.
    pub declared: Option<Enforcement>,
    /// The tier applies policies: what it declares unenforced it must refuse until that is waived.
    pub gated: bool,
    /// Demands for which the backend declined to create the sandbox until they were waived; the probe ran with the waiver.
    pub waived: Vec<Unmet>,
    /// Of these the ones that the backend had said it would meet, before it made the sandbox.
    pub unkept: Vec<Unmet>,
    /// The backend declined to create the sandbox, whatever is waived.
    pub refused: Option<String>,
    /// The probe was not run, and why.
    pub not_run: Option<String>,
    /// The probe's own means failed, or it was cut short.
    pub trouble: Option<String>,
}
