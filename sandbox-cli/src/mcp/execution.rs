//! Results of executions and exports, as results of tools.

use std::fs::File;

use rmcp::model::{CallToolResult, ContentBlock};
use sandbox::spi::escape;
use sandbox::{
    Artifact, ArtifactLimits, ByteSize, Captured, CodeResult, Compilation, Error, ErrorKind,
    ExecResult, Result, SandboxHandle, SkipReason,
};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::mcp::content;
use crate::mcp::kept::KeptItem;
use crate::mcp::store::ClientStore;

/// The most of one stream that is part of a result, in bytes; longer ones lose their middle.
const MAX_SHOWN: usize = 16 * 1024;

/// The longest line that code decides about, in bytes; the same.
const MAX_BRIEF: usize = 1024;

/// What one export keeps.
const EXPORT_LIMITS: ArtifactLimits = ArtifactLimits {
    count: 64,
    file_size: ByteSize::mib(16),
    total_size: ByteSize::mib(64),
};

/// A result of a tool that is put together from parts.
#[derive(Debug, Default)]
pub struct ToolReport {
    text: String,
    structured: Map<String, Value>,
    more: Vec<ContentBlock>,
}

impl ToolReport {
    /// What became of code.
    pub fn code(&mut self, store: &ClientStore, code: &CodeResult) {
        match code {
            CodeResult::Ran {
                result,
                compilation,
            } => {
                self.execution(store, result);
                if let Compilation::Compiled(compiler) = compilation
                    && !compiler.stderr.bytes.is_empty()
                {
                    self.line("Warnings of the compiler:");
                    let shown = self.stream(store, "compiler", &compiler.stderr);
                    self.set("compiler", shown);
                }
            }
            CodeResult::CompileFailed { compiler } => {
                self.line("The code did not compile, so nothing ran:");
                self.execution(store, compiler);
            }
            // A kind of result that this version does not know.
            other => self.line(&format!("{other:?}")),
        }
        self.set("ran", json!(code.ran().is_some()));
    }

    /// What became of a program.
    pub fn execution(&mut self, store: &ClientStore, result: &ExecResult) {
        let stdout = self.stream(store, "stdout", &result.stdout);
        if !result.stderr.bytes.is_empty() {
            self.line("stderr:");
        }
        let stderr = self.stream(store, "stderr", &result.stderr);
        self.line(&result.outcome.to_string());
        if let Some(why) = &result.incomplete {
            self.line(&format!("output may be missing: {why}"));
        }
        for denial in result.denials.iter() {
            self.line(&denial.to_string());
        }
        for (name, value) in [
            ("outcome", json!(result.outcome)),
            ("exit_code", json!(result.exit_code())),
            ("stdout", stdout),
            ("stderr", stderr),
            ("duration_ms", json!(millis(result.duration))),
            ("timeout_ms", json!(millis(result.timeout))),
            ("incomplete", json!(result.incomplete)),
            ("stragglers", json!(result.stragglers)),
            ("denials", json!(result.denials)),
        ] {
            self.set(name, value);
        }
    }

    /// Exports the artifacts of a sandbox and keeps them. Adds links to them, and the first images.
    /// Returns their number.
    pub async fn export(&mut self, store: &ClientStore, sandbox: &SandboxHandle) -> Result<usize> {
        if sandbox.plan().export_paths.is_empty() {
            return Ok(0);
        }
        // Only for a moment: a server that is killed meanwhile leaves it behind.
        let folder = export_folder()?;
        let export = sandbox.export_with(folder.path(), EXPORT_LIMITS).await?;
        let mut artifacts = Vec::new();
        let mut images = Vec::new();
        let mut room = content::MAX_IMAGES.as_u64();
        for artifact in &export.artifacts {
            let item = keep(store, artifact)?;
            if item.size <= room
                && let Some(image) = content::image(&item.read()?)
            {
                room -= item.size;
                images.push(image);
            }
            self.line(&format!(
                "artifact {} ({} bytes): {}",
                escape(&artifact.source),
                item.size,
                item.uri
            ));
            artifacts.push(json!({
                "resource": item.uri,
                "source": artifact.source,
                "size_bytes": artifact.size_bytes,
                "content_type": artifact.content_type,
                "blake3": artifact.blake3,
            }));
            self.more.push(content::link(&item));
        }
        self.more.extend(images);
        // A path without files is no news: code need not export anything.
        let skipped = export.skipped.iter();
        for skipped in skipped.filter(|skipped| skipped.reason != SkipReason::Missing) {
            let (source, reason) = (escape(&skipped.source), json!(skipped.reason));
            self.line(&format!("not exported: {source}: {reason}"));
        }
        self.set("artifacts", json!(artifacts));
        self.set("skipped", json!(export.skipped));
        Ok(export.artifacts.len())
    }

    /// Adds a line of text.
    pub fn line(&mut self, line: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text += line;
        self.text.push('\n');
    }

    /// Sets a field of the structured content.
    pub fn set(&mut self, name: &str, value: Value) {
        self.structured.insert(name.to_owned(), value);
    }

    pub fn into_result(self) -> CallToolResult {
        let text = self.text.trim_end().to_owned();
        content::result(text, Value::Object(self.structured), self.more)
    }

    /// Adds content that follows the text.
    pub fn attach(&mut self, content: ContentBlock) {
        self.more.push(content);
    }

    /// Adds a stream to the text. Returns its structured form.
    pub fn stream(&mut self, store: &ClientStore, name: &str, captured: &Captured) -> Value {
        let whole = captured.text();
        let mut shown = shortened(&whole, MAX_SHOWN);
        let resource = (shown.len() < whole.len()).then(|| {
            let item = store.kept().add_output(name, "text/plain", &captured.bytes);
            shown.middle = format!(
                "\n[{} of {} bytes left out; all of it: {}]\n",
                whole.len() - shown.len(),
                captured.total,
                item.uri
            );
            self.more.push(content::link(&item));
            item.uri
        });
        if captured.truncated() {
            let kept = captured.bytes.len();
            let note = format!(
                "\n[only the first {kept} of {} bytes were kept]",
                captured.total
            );
            shown.end += &note;
        }
        let shown = shown.joined();
        self.text += &shown;
        json!({ "text": shown, "bytes": captured.total, "resource": resource })
    }
}

/// A new folder of the host that only this user can enter.
fn export_folder() -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("sandbox-mcp-")
        .tempdir()
        .map_err(|error| {
            let context = "no temporary folder on the host";
            Error::new(ErrorKind::Io, "export artifacts", context).with_source(error)
        })
}

fn keep(store: &ClientStore, artifact: &Artifact) -> Result<KeptItem> {
    let file = File::open(&artifact.path).map_err(|error| {
        let context = artifact.path.display().to_string();
        Error::new(ErrorKind::Io, "keep artifact", context).with_source(error)
    })?;
    let name = artifact.source.rsplit('/').next().unwrap_or_default();
    Ok(store.kept().add_artifact(
        name.to_owned(),
        artifact.content_type.clone(),
        artifact.size_bytes,
        file,
    ))
}

/// The start and the end of a text, and what stands between them.
struct Shortened {
    start: String,
    middle: String,
    end: String,
}

impl Shortened {
    /// The length of what is left of the text.
    fn len(&self) -> usize {
        self.start.len() + self.end.len()
    }

    fn joined(self) -> String {
        self.start + &self.middle + &self.end
    }
}

/// A text of the code as a part of a line.
pub fn brief(text: &str) -> String {
    let mut shown = shortened(text, MAX_BRIEF);
    if shown.len() < text.len() {
        shown.middle = " ... ".to_owned();
    }
    escape(&shown.joined())
}

fn shortened(text: &str, most: usize) -> Shortened {
    let (mut start, mut end) = (text.len(), text.len());
    if text.len() > most {
        (start, end) = (most / 2, text.len() - most / 2);
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        while !text.is_char_boundary(end) {
            end += 1;
        }
    }
    Shortened {
        start: text[..start].to_owned(),
        middle: String::new(),
        end: text[end..].to_owned(),
    }
}

pub fn millis(duration: std::time::Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_keeps_its_start_and_its_end() {
        let text = "ä".repeat(MAX_SHOWN);
        let shown = shortened(&text, MAX_SHOWN);
        assert!(shown.len() <= MAX_SHOWN && shown.len() > MAX_SHOWN - 4);
        assert!(text.starts_with(&shown.start) && text.ends_with(&shown.end));
        assert_eq!(brief("te\nxt"), "te\\nxt");
        let long = "x".repeat(2 * MAX_BRIEF);
        assert_eq!(brief(&long).len(), MAX_BRIEF + " ... ".len());
    }
}
