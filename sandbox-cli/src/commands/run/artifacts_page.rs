//! The page of `--artifacts-html`: the artifacts to look at, in one file that loads nothing.
//!
//! The code wrote the artifacts, so nothing of them is markup of the page. Pictures are data URLs,
//! which run no scripts. HTML is in a frame without scripts, and the page's own policy forbids them
//! as well.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use sandbox::spi::escape;
use sandbox::{Artifact, ByteSize, Export};
use sandbox_host::open_output_folder;

use super::summary::skip_reason;
use crate::command_error::CommandError;

/// The largest picture and the largest HTML document on the page, and all content together.
const MAX_CONTENT: u64 = ByteSize::mib(16).as_u64();
const MAX_PAGE: u64 = ByteSize::mib(128).as_u64();

/// How much of a text is on the page, in bytes.
const MAX_TEXT: usize = 64 * 1024;

const HEAD: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>Artifacts</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em }
img, iframe { max-width: 100%; border: 1px solid #ccc; background: #fff }
iframe { width: 100%; height: 30em }
pre { background: #f4f4f4; overflow: auto; max-height: 30em; padding: 1em }
</style></head><body>
<h1>Artifacts</h1>
"#;

/// A new file for the page, which is removed unless the page is written.
#[derive(Debug)]
pub struct ArtifactsPage {
    folder: OwnedFd,
    name: PathBuf,
    file: Option<File>,
}

impl ArtifactsPage {
    /// Makes the file before the code runs. Code of an earlier run may have placed links in its
    /// path: see [`open_output_folder`].
    pub fn prepare(path: &Path, writable: &[PathBuf], follow: bool) -> Result<Self, CommandError> {
        let Some(name) = path.file_name() else {
            let why = format!("--artifacts-html: {}: this is no file", path.display());
            return Err(CommandError::argument(why));
        };
        let parent = match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => Path::new("/"),
        };
        let opened = open_output_folder(parent, writable, follow);
        let folder = opened.map_err(|error| error.into_error("open folder", parent))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made = openat(&folder.object, name, flags, Mode::from(0o644));
        let file = made.map_err(|errno: Errno| {
            CommandError::io(
                format!("--artifacts-html {}", path.display()),
                &errno.into(),
            )
        })?;
        Ok(Self {
            folder: folder.object,
            name: name.into(),
            file: Some(file.into()),
        })
    }

    /// Writes the page.
    pub fn write(mut self, export: &Export) -> Result<(), CommandError> {
        let failed = |error: std::io::Error| {
            CommandError::io(format!("--artifacts-html {}", self.name.display()), &error)
        };
        let page = page(export);
        let mut file = self.file.take().expect("it is taken here only");
        file.write_all(page.as_bytes()).map_err(failed)
    }
}

impl Drop for ArtifactsPage {
    fn drop(&mut self) {
        if self.file.is_some() {
            // It is empty and may stay.
            let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}

fn page(export: &Export) -> String {
    let mut page = HEAD.to_owned();
    let mut room = MAX_PAGE;
    for artifact in &export.artifacts {
        let kind = artifact.content_type.as_deref().unwrap_or("unknown type");
        page += &format!(
            "<h2>{}</h2>\n<p>{} bytes, {}</p>\n",
            text(&artifact.source),
            artifact.size_bytes,
            text(kind)
        );
        page += &match content(artifact, &mut room) {
            Ok(Some(content)) => shown(kind, &content),
            Ok(None) => "<p>It is too large for this page.</p>\n".to_owned(),
            Err(why) => format!("<p>{}</p>\n", text(&why)),
        };
    }
    if export.artifacts.is_empty() {
        page += "<p>There are none.</p>\n";
    }
    for skipped in &export.skipped {
        let reason = format!("{}: {}", skipped.source, skip_reason(&skipped.reason));
        page += &format!("<p>Not exported: {}</p>\n", text(&reason));
    }
    page + "</body></html>\n"
}

/// What was exported; `None` if it is too large.
fn content(artifact: &Artifact, room: &mut u64) -> Result<Option<Vec<u8>>, String> {
    if artifact.size_bytes > MAX_CONTENT.min(*room) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let file = File::open(&artifact.path).map(|file| file.take(artifact.size_bytes + 1));
    let read = file.and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(|error| format!("It cannot be read: {error}"))?;
    // Another file may have taken its place.
    if blake3::hash(&bytes).to_hex().as_str() != artifact.blake3 {
        return Err("It was changed after the export.".to_owned());
    }
    *room -= artifact.size_bytes;
    Ok(Some(bytes))
}

fn shown(kind: &str, content: &[u8]) -> String {
    match kind {
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" | "image/svg+xml" => {
            // Pictures run no scripts and load nothing, SVG included.
            let data = STANDARD.encode(content);
            format!("<img alt=\"\" src=\"data:{kind};base64,{data}\">\n")
        }
        "text/html" => {
            let source = String::from_utf8_lossy(content);
            format!(
                "<iframe sandbox=\"\" srcdoc=\"{}\"></iframe>\n<p>Scripts do not run here.</p>\n\
                 <details><summary>Source</summary>{}</details>\n",
                markup(&source),
                preformatted(&source)
            )
        }
        _ => match std::str::from_utf8(content) {
            Ok(source) => preformatted(source),
            Err(_) => "<p>It is no text and no picture.</p>\n".to_owned(),
        },
    }
}

fn preformatted(source: &str) -> String {
    let mut end = source.len().min(MAX_TEXT);
    while !source.is_char_boundary(end) {
        end -= 1;
    }
    let lines = source[..end].split('\n').map(text).collect::<Vec<_>>();
    let rest = match source.len() - end {
        0 => String::new(),
        rest => format!("<p>{rest} more bytes are not shown.</p>\n"),
    };
    format!("<pre>{}</pre>\n{rest}", lines.join("\n"))
}

/// Text of one line, with invisible characters as escapes.
fn text(source: &str) -> String {
    markup(&escape(source))
}

/// Text of the page, or of an attribute in double quotes.
fn markup(source: &str) -> String {
    let mut safe = String::with_capacity(source.len());
    for character in source.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page of one artifact with this source, type and content.
    fn page_of(source: &str, kind: &str, content: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, content).unwrap();
        let hash = blake3::hash(content).to_hex().to_string();
        let size = content.len() as u64;
        let artifact = Artifact::new(path, source.into(), size, Some(kind.into()), hash);
        let mut export = Export::default();
        export.artifacts.push(artifact);
        page(&export)
    }

    #[test]
    fn nothing_of_an_artifact_is_markup_of_the_page() {
        let hostile = "\"></iframe></pre><script>alert(1)</script><img src=x onerror=alert(1)>'";
        for kind in ["text/html", "text/plain", "application/json", hostile] {
            let page = page_of(hostile, kind, hostile.as_bytes());
            assert!(!page.contains("<script"), "{page}");
            assert!(!page.contains("<img src=x"), "{page}");
            assert_eq!(
                page.matches("</iframe>").count(),
                usize::from(kind == "text/html")
            );
            assert_eq!(page.matches("</pre>").count(), 1);
        }
        let page = page_of("/output/a\u{202e}\n", "text/plain", b"");
        assert!(page.contains("<h2>/output/a\\u{202e}\\n</h2>"), "{page}");
    }

    #[test]
    fn html_is_in_a_frame_without_rights() {
        let page = page_of("/output/a.html", "text/html", b"<p class=\"x\">&amp;");
        let frame = "<iframe sandbox=\"\" srcdoc=\"&lt;p class=&quot;x&quot;&gt;&amp;amp;\">";
        assert!(page.contains(frame), "{page}");
    }

    #[test]
    fn pictures_are_data() {
        let svg = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>";
        let page = page_of("/output/a.svg", "image/svg+xml", svg);
        let data = STANDARD.encode(svg);
        assert!(page.contains(&format!("src=\"data:image/svg+xml;base64,{data}\"")));
        assert!(!page.contains("<script"), "{page}");
    }

    #[test]
    fn changed_and_large_files_are_told() {
        let shown = page_of("/output/a.bin", "application/octet-stream", b"\xff\0");
        assert!(shown.contains("no text and no picture"), "{shown}");
        let long = "x".repeat(MAX_TEXT + 5);
        let shown = page_of("/output/a.txt", "text/plain", long.as_bytes());
        assert!(shown.contains("5 more bytes are not shown"), "{shown}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "other").unwrap();
        let mut export = Export::default();
        let hash = blake3::hash(b"first").to_hex().to_string();
        for size in [5, MAX_CONTENT + 1] {
            let source = "/output/a.txt".to_owned();
            let artifact = Artifact::new(path.clone(), source, size, None, hash.clone());
            export.artifacts.push(artifact);
        }
        let written = page(&export);
        assert!(
            written.contains("It was changed after the export."),
            "{written}"
        );
        assert!(written.contains("too large"), "{written}");
    }
}
