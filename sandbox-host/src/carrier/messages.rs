//! What clients of a detached sandbox ask its carrier: one line of JSON each way.

use std::io;

use sandbox_core::policy::EgressRules;
use sandbox_core::spi::EgressTraffic;
use sandbox_core::{Denials, Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
};

/// The longest line in bytes.
const LINE_LIMIT: u64 = 4 * 1024 * 1024;

/// What failed, in errors.
pub(super) const OPERATION: &str = "ask the carrier";

/// A request. It has no `Debug`, since it may hold a secret.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum CarrierRequest {
    /// The rules in force.
    Rules,
    /// Replace the rules.
    SetRules { rules: Vec<String> },
    /// What was carried so far.
    Traffic,
    /// The denials since the last such request.
    TakeDenials,
    /// Make a text that stands for a secret, until this connection ends.
    AddPlaceholder {
        name: String,
        value: Vec<u8>,
        hosts: Vec<String>,
    },
}

/// An answer.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum CarrierAnswer {
    Rules {
        rules: Vec<String>,
    },
    Set,
    Traffic(EgressTraffic),
    Denials(Denials),
    Placeholder {
        text: String,
    },
    Failed {
        kind: String,
        operation: String,
        context: String,
        fix: Option<String>,
    },
}

impl CarrierAnswer {
    pub(super) fn failed(error: &Error) -> Self {
        Self::Failed {
            kind: error.kind().as_str().to_owned(),
            operation: error.operation().to_owned(),
            context: error.context().to_owned(),
            fix: error.fix().map(str::to_owned),
        }
    }
}

/// The error in an answer.
pub(super) fn error(kind: &str, operation: &str, context: String, fix: Option<String>) -> Error {
    let kinds = [
        ErrorKind::PolicyExceeded,
        ErrorKind::InvalidPolicy,
        ErrorKind::InvalidRequest,
        ErrorKind::Unsupported,
        ErrorKind::SandboxEnded,
    ];
    let kind = kinds.into_iter().find(|known| known.as_str() == kind);
    let operations = ["change egress rules", "execute", "use sandbox"];
    let operation = operations.into_iter().find(|known| *known == operation);
    let error = Error::new(
        kind.unwrap_or(ErrorKind::Io),
        operation.unwrap_or(OPERATION),
        context,
    );
    match fix {
        Some(fix) => error.with_fix(fix),
        None => error,
    }
}

/// Rules as text.
pub(super) fn texts(rules: &EgressRules) -> Vec<String> {
    rules.rules().iter().map(ToString::to_string).collect()
}

/// Rules of text.
pub(super) fn rules(texts: &[String]) -> Result<EgressRules> {
    match texts.is_empty() {
        true => Ok(EgressRules::default()),
        false => EgressRules::parse(texts),
    }
}

/// Writes a message.
pub(super) async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &impl Serialize,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

/// Reads a message; `None` at the end of the stream.
pub(super) async fn read<T: DeserializeOwned>(
    stream: &mut (impl AsyncBufRead + Unpin),
) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    stream.take(LINE_LIMIT).read_until(b'\n', &mut line).await?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(serde_json::from_slice(&line)?)),
        Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
