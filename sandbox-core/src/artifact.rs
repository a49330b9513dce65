//! Artifacts: files that were exported from a sandbox.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{ByteSize, Denials};

/// A file produced in a sandbox and exported to the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Artifact {
    /// Absolute path on the host.
    pub path: PathBuf,
    /// Path inside the sandbox.
    pub source: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// MIME type from its content, else from its name, if one is known.
    pub content_type: Option<String>,
    /// BLAKE3 hash of its content, as 64 hexadecimal digits.
    pub blake3: String,
}

impl Artifact {
    /// An artifact with these properties.
    #[must_use]
    pub fn new(
        path: PathBuf,
        source: String,
        size_bytes: u64,
        content_type: Option<String>,
        blake3: String,
    ) -> Self {
        Self {
            path,
            source,
            size_bytes,
            content_type,
            blake3,
        }
    }
}

/// An export path, or an entry below it, that was not exported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedArtifact {
    /// The export path, or the entry below it.
    pub source: String,
    /// Why it was not exported.
    pub reason: SkipReason,
}

/// Why an export path or an entry below it did not become an [`Artifact`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SkipReason {
    /// It does not exist.
    Missing,
    /// It is a symbolic link, which an export does not follow.
    Symlink,
    /// It is neither a regular file nor a folder.
    SpecialFile,
    /// It is larger than [`ArtifactLimits::file_size`].
    TooLarge {
        /// Its size in bytes.
        size_bytes: u64,
    },
    /// The number or total size of artifacts reached its limit before.
    LimitReached,
    /// The output folder cannot have a file of this name.
    BadName,
    /// The output folder has an entry of this name that is not a folder.
    NameTaken,
    /// The folder is nested too deeply.
    TooDeep,
    /// More entries were skipped. At most 1,000 are listed by name.
    AndMore {
        /// How many.
        count: u64,
    },
    /// The code in the sandbox may not read it, or it changed during the export.
    Unreadable {
        /// The sandbox's message.
        detail: String,
    },
}

/// Limits of an export or a copy out of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtifactLimits {
    /// The number of files.
    pub count: usize,
    /// The size of one file.
    pub file_size: ByteSize,
    /// The size of all files together.
    pub total_size: ByteSize,
}

impl Default for ArtifactLimits {
    /// 1,000 files, 256 MiB each, 1 GiB together.
    fn default() -> Self {
        Self {
            count: 1000,
            file_size: ByteSize::mib(256),
            total_size: ByteSize::mib(1024),
        }
    }
}

/// The result of a copy into or out of a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// How many files were copied.
    pub files: u64,
    /// How many folders were copied, including those that existed before.
    pub folders: u64,
    /// The size of all copied files, in bytes.
    pub bytes: u64,
    /// Entries that were not copied, by their path in the source.
    pub skipped: Vec<SkippedArtifact>,
}

/// The result of an export.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// The exported files.
    pub artifacts: Vec<Artifact>,
    /// Export paths and entries that were not exported.
    pub skipped: Vec<SkippedArtifact>,
    /// Those of `skipped` that a rule denied.
    #[serde(default)]
    pub denials: Denials,
}
