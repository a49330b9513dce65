//! What is told of images.

use std::time::SystemTime;

use crate::ByteSize;

/// An image that an engine has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageInfo {
    /// Its id: `sha256:` and 64 hexadecimal digits.
    pub id: String,
    /// Its names, complete ([`crate::ImageReference`]), sorted.
    pub names: Vec<String>,
    /// The digests by which registries know it (`docker.io/library/python@sha256:…`), sorted.
    pub digests: Vec<String>,
    /// What it takes on the engine's disk, layers that it shares with others included; `None` where the engine does not say.
    pub size: Option<ByteSize>,
    /// When it was made, where the engine says.
    pub created: Option<SystemTime>,
    /// Whether it was built by this project.
    pub built: bool,
    /// Whether the call that tells this has brought the image: it was not there before.
    pub brought: bool,
}

impl ImageInfo {
    /// An image of which no more is known, and that was there before.
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

/// What happens while an image is pulled or built. Texts are the engine's or the build's: escape them before a terminal sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageEvent {
    /// A pull of this image begins.
    Pulling {
        /// Its complete name.
        reference: String,
    },
    /// A layer has come further.
    Layer {
        /// The layer's short id.
        id: String,
        /// What the engine does with it ("Downloading").
        status: String,
        /// Bytes so far, where the engine says.
        current: Option<u64>,
        /// Bytes in all, where the engine says.
        total: Option<u64>,
    },
    /// Something of a Dockerfile is left out, which changes nothing.
    Note {
        /// What, and why.
        text: String,
    },
    /// A build begins; its context is being sent.
    Building,
    /// Output of a build, of one line or several, as it comes.
    Output {
        /// The text.
        text: String,
    },
}

/// Is told what happens while an image is pulled or built. Called in the task that pulls: it must not take long.
pub type ImageProgress<'a> = dyn FnMut(&ImageEvent) + Send + 'a;
