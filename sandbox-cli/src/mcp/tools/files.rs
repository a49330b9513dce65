//! `file_read`, `file_write` and `file_list`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::CallToolResult;
use sandbox::spi::escape;
use sandbox::{ByteSize, Error, ErrorKind, FileKind, Result};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Effect, ToolArguments, ToolCall};
use crate::mcp::content;

/// The largest file that can be read.
const MAX_FILE: ByteSize = ByteSize::mib(16);

/// How much of a file one call returns, in bytes.
const MAX_PART: usize = 64 * 1024;

/// How many entries of a folder one call returns, and how many bytes their paths have.
const MAX_ENTRIES: usize = 1000;
const MAX_PATHS: usize = 128 * 1024;

/// The arguments of `file_read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadArguments {
    /// Name of the sandbox.
    sandbox: String,
    /// Path of the file; a relative one starts in the working folder.
    path: String,
    /// Where to start, in bytes.
    #[serde(default)]
    offset: usize,
}

impl ToolArguments for ReadArguments {
    const NAME: &'static str = "file_read";
    const DESCRIPTION: &'static str = "Read a file of at most 16 MiB in a sandbox: up to 64 KiB \
        from an offset as text, or base64 if it is not UTF-8. A small image is returned as one.";
    const EFFECT: Effect = Effect::Reads;

    async fn run(self, call: &ToolCall<'_>) -> Result<CallToolResult> {
        let sandbox = call.store.sandbox(&self.sandbox)?;
        let reading = sandbox.read_limited(&self.path, MAX_FILE);
        let bytes = call.supervised(reading).await?;
        if bytes.len() <= content::MAX_IMAGES.as_usize()
            && let Some(image) = content::image(&bytes)
        {
            let text = format!("{}: an image of {} bytes", escape(&self.path), bytes.len());
            let structured = json!({ "path": self.path, "size_bytes": bytes.len() });
            return Ok(content::result(text, structured, vec![image]));
        }
        let start = self.offset.min(bytes.len());
        let mut end = (start + MAX_PART).min(bytes.len());
        // A character is not cut in half.
        if let Err(error) = std::str::from_utf8(&bytes[start..end])
            && error.error_len().is_none()
        {
            end = start + error.valid_up_to();
        }
        let part = &bytes[start..end];
        let next = (end < bytes.len()).then_some(end);
        let mut structured = json!({
            "path": self.path, "size_bytes": bytes.len(), "offset": start, "next_offset": next,
        });
        let mut text = match std::str::from_utf8(part) {
            Ok(text) => {
                structured["text"] = json!(text);
                text.to_owned()
            }
            Err(_) => {
                let encoded = STANDARD.encode(part);
                structured["base64"] = json!(encoded);
                encoded
            }
        };
        if let Some(next) = next {
            text += &format!("\n[{} bytes; go on with offset {next}]", bytes.len());
        }
        Ok(content::result(text, structured, Vec::new()))
    }
}

/// The arguments of `file_write`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteArguments {
    /// Name of the sandbox.
    sandbox: String,
    /// Path of the file; a relative one starts in the working folder.
    path: String,
    /// Content as text.
    text: Option<String>,
    /// Content as base64, instead of text.
    base64: Option<String>,
}

impl ToolArguments for WriteArguments {
    const NAME: &'static str = "file_write";
    const DESCRIPTION: &'static str =
        "Write a file in a sandbox. Replaces an existing one and makes missing folders.";
    const EFFECT: Effect = Effect::Destroys;

    async fn run(self, call: &ToolCall<'_>) -> Result<CallToolResult> {
        let sandbox = call.store.sandbox(&self.sandbox)?;
        let bad = |context: String| Error::new(ErrorKind::InvalidRequest, "write file", context);
        let bytes = match (self.text, self.base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(encoded)) => STANDARD
                .decode(encoded)
                .map_err(|error| bad(format!("base64: {error}")))?,
            _ => return Err(bad("give either text or base64".to_owned())),
        };
        let size = bytes.len();
        call.supervised(sandbox.write(&self.path, bytes)).await?;
        let text = format!("wrote {} ({size} bytes)", escape(&self.path));
        let structured = json!({ "path": self.path, "size_bytes": size });
        Ok(content::result(text, structured, Vec::new()))
    }
}

/// The arguments of `file_list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListArguments {
    /// Name of the sandbox.
    sandbox: String,
    /// Path of the folder; the working folder if it is left out.
    path: Option<String>,
}

impl ToolArguments for ListArguments {
    const NAME: &'static str = "file_list";
    const DESCRIPTION: &'static str =
        "List what is directly in a folder of a sandbox: at most 1,000 entries, sorted by path.";
    const EFFECT: Effect = Effect::Reads;

    async fn run(self, call: &ToolCall<'_>) -> Result<CallToolResult> {
        let sandbox = call.store.sandbox(&self.sandbox)?;
        let path = self.path.as_deref().unwrap_or(".");
        let entries = call.supervised(sandbox.list_dir(path)).await?;
        let mut room = MAX_PATHS;
        let fitting = entries.iter().take(MAX_ENTRIES).take_while(|entry| {
            let rest = room.checked_sub(entry.path.as_os_str().len());
            room = rest.unwrap_or_default();
            rest.is_some()
        });
        let shown = fitting.collect::<Vec<_>>();
        let mut text = String::new();
        for entry in &shown {
            let mark = match entry.kind {
                FileKind::Folder => "/",
                FileKind::Link => "@",
                _ => "",
            };
            let path = escape(&entry.path.to_string_lossy());
            text += &format!("{path}{mark} {}\n", entry.size);
        }
        text += &format!("{} of {} entries", shown.len(), entries.len());
        let listed = shown.iter().map(|entry| {
            json!({
                "path": entry.path.to_string_lossy(),
                "kind": entry.kind,
                "size_bytes": entry.size,
                "mode": format!("{:o}", entry.mode),
            })
        });
        let structured = json!({
            "entries": listed.collect::<Vec<_>>(), "total": entries.len(),
        });
        Ok(content::result(text, structured, Vec::new()))
    }
}
