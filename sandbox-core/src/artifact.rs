//! Files that came out of a sandbox.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{ByteSize, Denials};

/// A file produced in a sandbox and exported to the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Artifact {
    /// Absolute path of the host where it was written.
    pub path: PathBuf,
    /// Path inside of the sandbox that it came from.
    pub source: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// MIME type from its content, or else from its name; `None` where neither tells.
    pub content_type: Option<String>,
    /// BLAKE3 hash of its content, 64 hexadecimal digits.
    pub blake3: String,
}

impl Artifact {
    /// A described artifact.
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

/// Why something that was to be exported was not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedArtifact {
    /// The export path, or the entry below it.
    pub source: String,
    /// Why.
    pub reason: SkipReason,
}

/// Why an export path or an entry below it did not become an [`Artifact`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SkipReason {
    /// Nothing is there.
    Missing,
    /// A symbolic link; links are not followed out of a sandbox.
    Symlink,
    /// Neither a regular file nor a folder.
    SpecialFile,
    /// Larger than a single artifact may be.
    TooLarge {
        /// Its size in bytes.
        size_bytes: u64,
    },
    /// The limit on the number or the total size of artifacts was reached before it.
    LimitReached,
    /// The name cannot be written below the output folder.
    BadName,
    /// Something of another kind stands in the output folder where a folder of this name would.
    NameTaken,
    /// A folder that is too deep to be looked into.
    TooDeep,
    /// This many more entries were left out; 1,000 of them are named.
    AndMore {
        /// How many.
        count: u64,
    },
    /// The code in the sandbox may not read it, or it changed while it was read.
    Unreadable {
        /// What the sandbox said.
        detail: String,
    },
}

/// What may come out at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtifactLimits {
    /// How many files.
    pub count: usize,
    /// How large one file.
    pub file_size: ByteSize,
    /// How large all files together.
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

/// What a copy into or out of a sandbox did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// How many files were copied.
    pub files: u64,
    /// How many folders were copied, those that were there before included.
    pub folders: u64,
    /// How many bytes all files have together.
    pub bytes: u64,
    /// What was not copied, and why; paths of the side that it was copied from.
    pub skipped: Vec<SkippedArtifact>,
}

/// What an export did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// What came out.
    pub artifacts: Vec<Artifact>,
    /// What did not, and why.
    pub skipped: Vec<SkippedArtifact>,
    /// What of that was denied by a rule.
    #[serde(default)]
    pub denials: Denials,
}
