//! Messages of a driver. Everything in them is what code in the interpreter may have written.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sandbox_core::Outcome;
use serde::{Deserialize, Serialize};

use super::result::{CellError, Display, MimeData, Plot, TraceFrame};

/// The most variables whose names are kept.
pub(super) const MAX_NAMES: usize = 500;

/// The most frames of a traceback.
const MAX_FRAMES: usize = 200;

/// What a driver is started with.
#[derive(Debug, Serialize)]
pub(super) struct WorkerOptions<'a> {
    pub(super) plots: Vec<&'a str>,
    /// The largest display, in bytes.
    pub(super) display_limit: usize,
    /// The most bytes of all displays of a cell.
    pub(super) displays_limit: usize,
    /// The modules that are imported first.
    pub(super) preload: &'a [String],
}

/// Asks for a cell.
#[derive(Debug, Serialize)]
pub(super) struct RunMessage<'a> {
    pub(super) cell: u64,
    pub(super) name: String,
    pub(super) code: &'a str,
    pub(super) stdin: String,
    /// How much of standard output and standard error is sent.
    pub(super) limits: [u64; 2],
    /// Whether a copy of the interpreter runs it.
    pub(super) fork: bool,
}

/// What a driver says.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Message {
    Ready {
        version: String,
    },
    Display {
        cell: u64,
        kind: DisplayKind,
        data: BTreeMap<String, Content>,
        omitted: BTreeMap<String, u64>,
        plot: Option<Plot>,
    },
    Done(Box<Done>),
    /// The interpreter cannot be copied, because it has these threads.
    Refused {
        cell: u64,
        threads: Vec<String>,
    },
    /// A copy waits for its channel at this socket.
    Branched {
        path: String,
    },
    NotBranched {
        cause: NotBranchedCause,
        reason: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum NotBranchedCause {
    /// The interpreter has threads, which a copy would not have.
    Threads,
    /// The sandbox refuses Unix sockets.
    Sockets,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DisplayKind {
    Result,
    Display,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Content {
    Text(String),
    Base64(String),
    /// JSON as text.
    Json(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Done {
    pub(super) cell: u64,
    pub(super) error: Option<WireError>,
    /// Of a shell; no message has it.
    #[serde(skip)]
    pub(super) status: Option<u8>,
    /// `None` if they have not changed.
    pub(super) variables: Option<Variables>,
    pub(super) displays_omitted: u64,
    pub(super) stdout: u64,
    pub(super) stderr: u64,
    /// How the copy that ran the cell ended, if it did not tell the end of the cell.
    #[serde(default)]
    pub(super) died: Option<WireEnd>,
}

/// The end of a process.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WireEnd {
    code: Option<u8>,
    signal: Option<u8>,
    pub(super) details: String,
}

impl WireEnd {
    pub(super) fn outcome(&self) -> Outcome {
        match (self.code, self.signal) {
            (Some(code), None) => Outcome::Exited { code: code.into() },
            (None, Some(signal)) => Outcome::Signaled {
                signal: signal.into(),
            },
            _ => Outcome::Unknown {
                reason: "the interpreter did not say how its copy ended".to_owned(),
            },
        }
    }
}

/// Variables of the code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Variables {
    pub(super) total: u64,
    pub(super) names: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WireError {
    name: String,
    message: String,
    traceback: String,
    frames: Vec<WireFrame>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireFrame {
    file: String,
    line: Option<u32>,
    function: Option<String>,
}

impl From<WireError> for CellError {
    fn from(error: WireError) -> Self {
        let frames = error.frames.into_iter().take(MAX_FRAMES);
        Self {
            name: error.name,
            message: error.message,
            traceback: error.traceback,
            frames: frames
                .map(|frame| TraceFrame {
                    file: frame.file,
                    line: frame.line,
                    function: frame.function,
                })
                .collect(),
        }
    }
}

/// A message; an error says how it is wrong.
pub(super) fn parse(bytes: &[u8]) -> Result<Message, String> {
    let message = serde_json::from_slice(bytes).map_err(|error| format!("a message: {error}"))?;
    if let Message::Done(done) = &message
        && let Some(variables) = &done.variables
        && variables.names.len() > MAX_NAMES
    {
        return Err(format!("the names of {} variables", variables.names.len()));
    }
    Ok(message)
}

/// A display, and its size in bytes.
pub(super) fn display(
    data: BTreeMap<String, Content>,
    omitted: BTreeMap<String, u64>,
    plot: Option<Plot>,
) -> Result<(Display, usize), String> {
    let mut size = 0;
    let mut contents = BTreeMap::new();
    for (mime, content) in data {
        let content = match content {
            Content::Text(text) => {
                size += text.len();
                MimeData::Text(text)
            }
            Content::Json(text) => {
                size += text.len();
                match serde_json::from_str(&text) {
                    Ok(value) => MimeData::Json(value),
                    // Numbers and depths have limits here that languages do not have.
                    Err(_) => MimeData::Text(text),
                }
            }
            Content::Base64(text) => {
                let bytes = STANDARD.decode(&text);
                let bytes = bytes.map_err(|error| format!("{mime}: {error}"))?;
                size += bytes.len();
                MimeData::Bytes(bytes)
            }
        };
        contents.insert(mime, content);
    }
    let display = Display {
        data: contents,
        omitted,
        plot,
    };
    Ok((display, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_missing_fields_are_refused() {
        for text in [
            "",
            "[]",
            r#"{"type":"other"}"#,
            r#"{"type":"ready"}"#,
            r#"{"type":"ready","version":"3","more":1}"#,
            r#"{"type":"done","cell":-1}"#,
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn too_many_names_are_refused() {
        let names = vec!["a"; MAX_NAMES + 1];
        let done = serde_json::json!({
            "type": "done", "cell": 1, "error": null,
            "variables": {"total": 1, "names": names},
            "displays_omitted": 0, "stdout": 0, "stderr": 0,
        });
        assert!(parse(done.to_string().as_bytes()).is_err());
    }

    #[test]
    fn size_of_a_display_is_that_of_its_decoded_data() {
        let data = r#"{"image/png": {"base64": "YWJj"}, "text/plain": {"text": "four"}}"#;
        let data = serde_json::from_str(data).expect("valid");
        let (display, size) = display(data, BTreeMap::new(), None).expect("valid");
        assert_eq!(size, 7);
        assert_eq!(display.data["image/png"], MimeData::Bytes(b"abc".to_vec()));
    }
}
