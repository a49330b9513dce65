//! Information about images.

use std::time::SystemTime;

use crate::ByteSize;

/// An image that an engine has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageInfo {
    /// The id: `sha256:` and 64 hexadecimal digits.
    pub id: String,
    /// The complete names ([`crate::ImageReference`]), sorted.
    pub names: Vec<String>,
    /// The digests in registries (`docker.io/library/python@sha256:…`), sorted.
    pub digests: Vec<String>,
    /// The size on the engine's disk, with layers that it shares with others; `None` if the engine
    /// does not report it.
    pub size: Option<ByteSize>,
    /// The creation time, if the engine reports it.
    pub created: Option<SystemTime>,
    /// Whether this project built it.
    pub built: bool,
    /// Whether the call that returned this fetched the image.
    pub brought: bool,
}

impl ImageInfo {
    /// An image that was there before, without further information.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            names: Vec::new(),
            digests: Vec::new(),
            size: None,
            created: None,
            built: false,
            brought: false,
        }
    }
}

/// An event of pulling or building an image. Texts come from the engine or the build: escape them
/// before writing them to a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageEvent {
    /// The pull of an image begins.
    Pulling {
        /// The complete name.
        reference: String,
    },
    /// A layer has progressed.
    Layer {
        /// The layer's short id.
        id: String,
        /// The engine's action ("Downloading").
        status: String,
        /// The number of bytes so far, if the engine reports it.
        current: Option<u64>,
        /// The total number of bytes, if the engine reports it.
        total: Option<u64>,
    },
    /// A part of a Dockerfile that is ignored without changing the result.
    Note {
        /// What is ignored, and why.
        text: String,
    },
    /// A build begins, and its context is being sent.
    Building,
    /// Output of a build: one or more lines.
    Output {
        /// The text.
        text: String,
    },
}

/// A callback for image events. It runs in the task that pulls, so it must return quickly.
pub type ImageProgress<'a> = dyn FnMut(&ImageEvent) + Send + 'a;
