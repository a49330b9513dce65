//! What became of a cell.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sandbox_core::spi::escape;
use sandbox_core::{Captured, Error, ErrorKind, Outcome, Result};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// The result of a cell.
///
/// Everything but [`CellResult::session`], the limits and the length of the captured output is what
/// the interpreter said. Code in it can lie about its own session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CellResult {
    /// The number of the cell, from 1. Its name in tracebacks is `<cell 1>`.
    pub cell: u64,
    /// How it ended.
    pub outcome: CellOutcome,
    /// Standard output, also of processes that the cell started.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// The value of the last expression.
    pub result: Option<Display>,
    /// What else was displayed, in order: plots, and calls of `display`.
    pub displays: Vec<Display>,
    /// How many displays were omitted because a cell has at most 1000.
    pub displays_omitted: u64,
    /// Whether the interpreter's variables still exist.
    pub session: SessionState,
    /// What was lost after the last result and before this cell.
    pub lost_before: Option<Lost>,
    /// Time from the start of the cell to its end.
    #[serde(rename = "duration_ms", serialize_with = "milliseconds")]
    pub duration: Duration,
}

fn milliseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((duration.as_secs_f64() * 1e6).round() / 1e3)
}

/// How a cell ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CellOutcome {
    /// It ran to its end.
    Completed,
    /// It raised an error.
    Raised(CellError),
    /// The last command of a shell's cell failed.
    Failed {
        /// Its status, from 1: 128 and a number for a signal.
        status: u8,
    },
    /// The time limit was reached.
    TimedOut {
        /// Where it was interrupted, if the interpreter said so.
        error: Option<CellError>,
    },
    /// The interpreter ended, or the fork that ran the cell.
    Died {
        /// How.
        outcome: Outcome,
        /// What the interpreter wrote about it, such as where it crashed.
        details: String,
    },
    /// The interpreter sent what its driver never sends, and was killed.
    Broken {
        /// What it sent.
        reason: String,
    },
}

impl fmt::Display for CellOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed => f.write_str("completed"),
            Self::Raised(error) => {
                write!(f, "{}: {}", escape(&error.name), escape(&error.message))
            }
            Self::Failed { status } => write!(f, "failed with status {status}"),
            Self::TimedOut { .. } => f.write_str("timed out"),
            Self::Died { outcome, .. } => write!(f, "the interpreter ended: {outcome}"),
            Self::Broken { reason } => {
                let reason = escape(reason);
                write!(f, "the interpreter was killed: it sent {reason}")
            }
        }
    }
}

/// An error that a cell raised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CellError {
    /// The name of its type, such as `ZeroDivisionError`.
    pub name: String,
    /// Its message.
    pub message: String,
    /// The traceback as text, with the lines of the code.
    pub traceback: String,
    /// The calls that led to it; the last one raised it.
    pub frames: Vec<TraceFrame>,
}

/// One call in a traceback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TraceFrame {
    /// The file, or the cell's name such as `<cell 3>`.
    pub file: String,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The function.
    pub function: Option<String>,
}

/// Whether the variables of a session still exist after a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionState {
    /// They do.
    Kept,
    /// They do not: the next cell runs in a new interpreter. Files still exist.
    Restarted(Lost),
}

/// What ended with an interpreter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Lost {
    /// Why the interpreter ended.
    pub reason: String,
    /// How many variables there were when the last cell before ended.
    pub variables: u64,
    /// The names of the first 500.
    pub names: Vec<String>,
}

/// A value as data for display, by MIME type.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Display {
    /// The representations of the value, by MIME type such as `text/plain` and `image/png`.
    pub data: BTreeMap<String, MimeData>,
    /// The sizes of representations that exceeded the limit, in bytes. Of `text/plain`, `data`
    /// still has the beginning.
    pub omitted: BTreeMap<String, u64>,
    /// The size of a plot.
    pub plot: Option<Plot>,
}

impl Display {
    /// The text of this type; `None` if there is none.
    #[must_use]
    pub fn text(&self, mime: &str) -> Option<&str> {
        match self.data.get(mime) {
            Some(MimeData::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The bytes of this type; `None` if there are none.
    #[must_use]
    pub fn bytes(&self, mime: &str) -> Option<&[u8]> {
        match self.data.get(mime) {
            Some(MimeData::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }
}

/// One representation of a value. In JSON, bytes are base64.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MimeData {
    /// Text.
    Text(String),
    /// Bytes, such as an image.
    #[serde(rename = "base64", serialize_with = "base64")]
    Bytes(Vec<u8>),
    /// JSON. What is nested more than 128 levels deep, or has larger numbers than 64 bits, is
    /// [`MimeData::Text`].
    Json(Value),
}

fn base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

/// The size of a plot.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Plot {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Pixels for each inch.
    pub dpi: f64,
}

impl CellResult {
    /// Whether the cell ran to its end.
    #[must_use]
    pub fn success(&self) -> bool {
        self.outcome == CellOutcome::Completed
    }

    /// The error that the cell raised, or where it was interrupted.
    #[must_use]
    pub fn error(&self) -> Option<&CellError> {
        match &self.outcome {
            CellOutcome::Raised(error) => Some(error),
            CellOutcome::TimedOut { error } => error.as_ref(),
            _ => None,
        }
    }

    /// Returns an error unless the cell ran to its end.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ProgramFailed`].
    pub fn check(&self) -> Result<&Self> {
        if self.success() {
            return Ok(self);
        }
        let context = format!("cell {}: {}", self.cell, self.outcome);
        Err(Error::new(ErrorKind::ProgramFailed, "run cell", context))
    }
}
