//! Exports files from a sandbox: the agent finds them as the sandboxed user, and the host writes
//! them below one folder.

use std::collections::BTreeSet;
use std::path::Path;

use async_trait::async_trait;
use globset::{GlobBuilder, GlobMatcher};
use sandbox_agent::protocol::Builtin;
use sandbox_core::spi::{Flow, OutputSink, OutputStream};
use sandbox_core::{
    Artifact, ArtifactLimits, ByteSize, Error, ErrorKind, Export, Result, SkipReason,
    SkippedArtifact,
};
use tokio::io::AsyncWriteExt;

use crate::entries::{self, Entry, EntryType};
use crate::instance::AgentInstance;
use crate::output_folder::OutputFolder;

/// The bytes of a file that determine its content type.
const HEAD: usize = 8 * 1024;

/// The most skipped entries that are named.
const MAX_NAMED_SKIPS: usize = 1000;

/// The longest path of the host, in bytes.
const MAX_HOST_PATH: usize = 4095;

/// Checks the export paths before anything runs.
///
/// # Errors
///
/// [`ErrorKind::InvalidPolicy`] with the pattern and what is wrong with it.
pub fn check_export_paths(paths: &[String]) -> Result<()> {
    paths
        .iter()
        .try_for_each(|path| ExportPattern::parse(path).map(drop))
}

/// Copies the files that match `paths` into `folder`.
pub(crate) async fn export(
    instance: &AgentInstance,
    paths: &[String],
    folder: &Path,
    limits: ArtifactLimits,
) -> Result<Export> {
    let output = instance.output_folder(folder);
    let output = output.map_err(|error| error.into_error("open output folder", folder))?;
    let mut run = ExportRun {
        instance,
        output,
        limits,
        seen: BTreeSet::new(),
        total: 0,
        export: Export::default(),
        unnamed: 0,
    };
    for path in paths {
        run.pattern(path).await?;
    }
    Ok(run.finish(paths))
}

struct ExportRun<'a> {
    instance: &'a AgentInstance,
    output: OutputFolder,
    limits: ArtifactLimits,
    seen: BTreeSet<Vec<u8>>,
    total: u64,
    export: Export,
    /// Skipped entries that are not named.
    unnamed: u64,
}

/// An export path: the folder or file to list, the pattern to match, and the prefix to remove from
/// paths.
struct ExportPattern {
    base: String,
    matcher: Option<GlobMatcher>,
    /// The length of the path prefix that exported names omit.
    prefix: usize,
}

impl ExportPattern {
    fn parse(path: &str) -> Result<Self> {
        // The agent lists a relative path in the working folder, with this prefix.
        let in_workdir = format!("./{}", path.strip_prefix("./").unwrap_or(path));
        let path = match path.starts_with('/') {
            true => path,
            false => &in_workdir,
        };
        let path = if path.len() > 1 {
            path.trim_end_matches('/')
        } else {
            path
        };
        if !path.contains(['*', '?', '[', '{']) {
            let prefix = path.rfind('/').map_or(0, |slash| slash + 1);
            return Ok(Self {
                base: path.to_owned(),
                matcher: None,
                prefix,
            });
        }
        let glob = GlobBuilder::new(path)
            .literal_separator(true)
            .build()
            .map_err(|error| {
                Error::new(
                    ErrorKind::InvalidPolicy,
                    "read export path",
                    format!("{path:?}: {error}"),
                )
            })?;
        let literal = path
            .split('/')
            .take_while(|part| !part.contains(['*', '?', '[', '{']));
        let base = literal.collect::<Vec<_>>().join("/");
        let base = if base.is_empty() {
            "/".to_owned()
        } else {
            base
        };
        let prefix = if base == "/" { 1 } else { base.len() + 1 };
        Ok(Self {
            base,
            matcher: Some(glob.compile_matcher()),
            prefix,
        })
    }

    /// The depth to list: that of the pattern, or the maximum if it contains `**`.
    fn depth(&self) -> u32 {
        match self.glob() {
            Some(glob) if !glob.contains("**") => {
                let below = parts(glob.as_bytes()).saturating_sub(parts(self.base.as_bytes()));
                // The root folder's own path ends in a separator.
                let below = below + usize::from(self.base == "/");
                u32::try_from(below)
                    .unwrap_or(entries::DEPTH)
                    .min(entries::DEPTH)
            }
            _ => entries::DEPTH,
        }
    }

    fn glob(&self) -> Option<&str> {
        self.matcher.as_ref().map(|matcher| matcher.glob().glob())
    }

    /// Whether something below a folder could match.
    fn leads_into(&self, entry: &Entry) -> bool {
        self.glob()
            .is_none_or(|glob| glob.contains("**") || parts(glob.as_bytes()) > parts(&entry.path))
    }

    fn matches(&self, entry: &Entry) -> bool {
        use std::os::unix::ffi::OsStrExt;
        match &self.matcher {
            None => true,
            Some(matcher) => matcher.is_match(std::ffi::OsStr::from_bytes(&entry.path)),
        }
    }
}

/// The number of separators in a path.
fn parts(path: &[u8]) -> usize {
    path.iter().filter(|byte| **byte == b'/').count()
}

impl ExportRun<'_> {
    fn skip(&mut self, source: &[u8], reason: SkipReason) {
        if self.export.skipped.len() >= MAX_NAMED_SKIPS {
            self.unnamed += 1;
            return;
        }
        let source = String::from_utf8_lossy(source).into_owned();
        self.export.skipped.push(SkippedArtifact { source, reason });
    }

    fn finish(mut self, paths: &[String]) -> Export {
        if self.unnamed > 0 {
            let count = self.unnamed;
            self.export.skipped.push(SkippedArtifact {
                source: paths.join(", "),
                reason: SkipReason::AndMore { count },
            });
        }
        self.export
    }

    async fn pattern(&mut self, path: &str) -> Result<()> {
        let pattern = ExportPattern::parse(path)?;
        let (entries, whole) =
            match entries::list(self.instance, &pattern.base, pattern.depth()).await {
                Ok(listed) => listed,
                Err(error) if error.kind() == ErrorKind::Path => {
                    let reason = if entries::is_missing(&error) {
                        SkipReason::Missing
                    } else {
                        SkipReason::Unreadable {
                            detail: error.context().to_owned(),
                        }
                    };
                    self.skip(path.as_bytes(), reason);
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
        let mut found = false;
        for entry in &entries {
            if entry.entry_type == EntryType::Folder {
                continue;
            }
            if entry.entry_type.may_hide_entries() {
                // Something in it might have matched.
                let concerns = pattern.leads_into(entry) || pattern.matches(entry);
                if concerns && self.seen.insert(entry.path.clone()) {
                    found = true;
                    self.entry(entry, pattern.prefix).await?;
                }
                continue;
            }
            if !pattern.matches(entry) {
                continue;
            }
            found = true;
            if self.seen.insert(entry.path.clone()) {
                self.entry(entry, pattern.prefix).await?;
            }
        }
        if !whole {
            self.skip(path.as_bytes(), SkipReason::LimitReached);
        } else if !found && pattern.matcher.is_some() {
            self.skip(path.as_bytes(), SkipReason::Missing);
        }
        Ok(())
    }

    async fn entry(&mut self, entry: &Entry, prefix: usize) -> Result<()> {
        if let Some(reason) = entry.skipped() {
            self.skip(&entry.path, reason);
            return Ok(());
        }
        if entry.entry_type == EntryType::Folder {
            return Ok(());
        }
        if entry.size > self.limits.file_size.as_u64() {
            self.skip(
                &entry.path,
                SkipReason::TooLarge {
                    size_bytes: entry.size,
                },
            );
            return Ok(());
        }
        let full = self.export.artifacts.len() >= self.limits.count
            || self.total.saturating_add(entry.size) > self.limits.total_size.as_u64();
        if full {
            self.skip(&entry.path, SkipReason::LimitReached);
            return Ok(());
        }
        let name = entry.path.get(prefix..).unwrap_or_default();
        let Ok(source) = String::from_utf8(entry.path.clone()) else {
            self.skip(&entry.path, SkipReason::BadName);
            return Ok(());
        };
        if !OutputFolder::is_good_name(name) || self.output.length() + name.len() > MAX_HOST_PATH {
            self.skip(&entry.path, SkipReason::BadName);
            return Ok(());
        }
        self.copy(name, source).await
    }

    async fn copy(&mut self, name: &[u8], source: String) -> Result<()> {
        let output_error = |error: std::io::Error| {
            let name = String::from_utf8_lossy(name);
            Error::new(ErrorKind::Io, "write artifact", format!("{name}: {error}"))
        };
        let new = match self.output.create(name) {
            Ok(new) => new,
            Err(error) if is_taken(&error) => {
                self.skip(source.as_bytes(), SkipReason::NameTaken);
                return Ok(());
            }
            Err(error) => return Err(output_error(error)),
        };
        let path = new.path();
        let left = self.limits.total_size.as_u64() - self.total;
        let limit = ByteSize::bytes(left.min(self.limits.file_size.as_u64()));
        let file = new.file.try_clone().map_err(output_error)?;
        let mut writer = ArtifactWriter::new(tokio::fs::File::from_std(file), limit);
        let get = Builtin::Get {
            path: source.clone().into_bytes(),
        };
        let copied = self.instance.builtin(get, None, &mut writer).await;
        let written = writer.finish().await;
        let reason = match (copied, &written) {
            (Err(error), _) if error.kind() != ErrorKind::Path => {
                new.discard().map_err(output_error)?;
                return Err(error);
            }
            (Err(error), _) => Some(SkipReason::Unreadable {
                detail: error.context().to_owned(),
            }),
            (
                Ok(()),
                Ok(WrittenArtifact {
                    too_large: true,
                    size,
                    ..
                }),
            ) => Some(SkipReason::TooLarge { size_bytes: *size }),
            (Ok(()), _) => None,
        };
        if let Some(reason) = reason {
            new.discard().map_err(output_error)?;
            self.skip(source.as_bytes(), reason);
            return Ok(());
        }
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                new.discard().map_err(output_error)?;
                return Err(output_error(error));
            }
        };
        new.keep();
        self.total += written.size;
        let content_type = content_type(&written.head, &path);
        self.export.artifacts.push(Artifact::new(
            path,
            source,
            written.size,
            content_type,
            written.blake3,
        ));
        Ok(())
    }
}

/// Whether a file cannot be created because something else has its name or the name of a parent
/// folder.
fn is_taken(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let taken = [
        Errno::NOTDIR,
        Errno::LOOP,
        Errno::XDEV,
        Errno::EXIST,
        Errno::ISDIR,
    ];
    let found = error.raw_os_error().map(Errno::from_raw_os_error);
    found.is_some_and(|errno| taken.contains(&errno))
        || error.kind() == std::io::ErrorKind::AlreadyExists
}

struct WrittenArtifact {
    size: u64,
    too_large: bool,
    head: Vec<u8>,
    blake3: String,
}

struct ArtifactWriter {
    file: tokio::fs::File,
    limit: u64,
    size: u64,
    head: Vec<u8>,
    hasher: blake3::Hasher,
    error: Option<std::io::Error>,
}

impl ArtifactWriter {
    fn new(file: tokio::fs::File, limit: ByteSize) -> Self {
        Self {
            file,
            limit: limit.as_u64(),
            size: 0,
            head: Vec::new(),
            hasher: blake3::Hasher::new(),
            error: None,
        }
    }

    async fn finish(mut self) -> std::io::Result<WrittenArtifact> {
        self.file.flush().await?;
        if let Some(error) = self.error {
            return Err(error);
        }
        Ok(WrittenArtifact {
            size: self.size,
            too_large: self.size > self.limit,
            head: self.head,
            blake3: self.hasher.finalize().to_hex().to_string(),
        })
    }
}

#[async_trait]
impl OutputSink for ArtifactWriter {
    async fn write(&mut self, _stream: OutputStream, bytes: &[u8]) -> Flow {
        self.size = self.size.saturating_add(bytes.len() as u64);
        if self.size > self.limit {
            return Flow::Stop;
        }
        let room = HEAD - self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.hasher.update(bytes);
        match self.file.write_all(bytes).await {
            Ok(()) => Flow::Continue,
            Err(error) => {
                self.error = Some(error);
                Flow::Stop
            }
        }
    }
}

fn content_type(head: &[u8], path: &Path) -> Option<String> {
    let by_content = infer::get(head).map(|kind| kind.mime_type().to_owned());
    by_content.or_else(|| mime_guess::from_path(path).first_raw().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let entry = Entry {
            entry_type: EntryType::File,
            mode: 0o644,
            size: 0,
            modified: 0,
            path: path.into(),
        };
        ExportPattern::parse(pattern).unwrap().matches(&entry)
    }

    #[test]
    fn patterns_match_names_within_folders() {
        assert!(matches("/output/*.png", "/output/a.png"));
        assert!(!matches("/output/*.png", "/output/sub/a.png"));
        assert!(matches("/output/**/*.png", "/output/sub/a.png"));
        assert_eq!(
            ExportPattern::parse("/output/*.png").unwrap().base,
            "/output"
        );
        assert_eq!(ExportPattern::parse("/*").unwrap().base, "/");
        for (pattern, depth) in [("/output/*.png", 1), ("/o/*/x", 2), ("/*", 1), ("/*/x", 2)] {
            assert_eq!(
                ExportPattern::parse(pattern).unwrap().depth(),
                depth,
                "{pattern}"
            );
        }
        for deep in ["/output", "/output/**", "/*/**/x"] {
            assert_eq!(ExportPattern::parse(deep).unwrap().depth(), entries::DEPTH);
        }
    }

    #[test]
    fn exported_names_keep_folder_and_pattern_base() {
        let name = |pattern: &str, path: &'static str| {
            &path[ExportPattern::parse(pattern).unwrap().prefix..]
        };
        assert_eq!(name("/output/plots", "/output/plots/a.png"), "plots/a.png");
        assert_eq!(name("/output/plots/", "/output/plots/a.png"), "plots/a.png");
        assert_eq!(
            name("/output/**/*.png", "/output/plots/a.png"),
            "plots/a.png"
        );
        assert_eq!(name("/result.txt", "/result.txt"), "result.txt");
    }

    #[test]
    fn content_types_come_from_content_first() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
        assert_eq!(
            content_type(png, Path::new("a.txt")).as_deref(),
            Some("image/png")
        );
        assert_eq!(
            content_type(b"a,b\n1,2\n", Path::new("a.csv")).as_deref(),
            Some("text/csv")
        );
        assert_eq!(content_type(b"?", Path::new("a")), None);
    }
}
