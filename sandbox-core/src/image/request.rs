//! What is asked for with images.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result};

/// When an image is pulled from its registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullPolicy {
    /// Never: an image that the engine does not have is an error.
    #[default]
    Never,
    /// When the engine does not have it.
    Missing,
    /// Every time, so that a tag which has moved is followed.
    Always,
}

impl PullPolicy {
    /// Every policy.
    pub const ALL: &'static [Self] = &[Self::Never, Self::Missing, Self::Always];

    /// `never`, `missing` or `always`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Missing => "missing",
            Self::Always => "always",
        }
    }
}

impl fmt::Display for PullPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for PullPolicy {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|policy| policy.as_str() == name);
        found.copied().ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidSpec,
                "read pull policy",
                format!("unknown pull policy {name:?}; known are never, missing, always"),
            )
        })
    }
}

/// What becomes of an image when the sandbox that it was brought for has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageRetention {
    /// It stays.
    #[default]
    Keep,
    /// It is removed where this client's backend has pulled or built it, unless another container uses it. An image that was
    /// there before stays; so does one whose client was killed. Refused with `InvalidSpec` where there is nothing to remove: by tiers
    /// without images, on Kubernetes, whose nodes own their images, and for a container that is adopted.
    Remove,
}

/// A request to build an image from a Dockerfile.
///
/// The engine's builder executes what stands in the Dockerfile, with the engine's defaults and not under any policy: as root of
/// a container of its own, with nothing of the host but the context, and without a network unless [`BuildRequest::network`] says
/// otherwise.
///
/// Builders read some Dockerfiles in different ways. What they do not all read alike is refused with `InvalidRequest`, among it heredocs,
/// `ONBUILD`, most parser directives, and mounts other than `tmpfs`; `docs/engines.md` lists all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildRequest {
    /// The folder of the host that the build can copy from; what its `.dockerignore` names is not sent.
    pub context: PathBuf,
    /// Whether links that leave their folder are followed in the path of the context. They also are where the policy follows links.
    pub follow_links: bool,
    /// The Dockerfile, as a path within the context of which no part is a link; `None` is `Dockerfile`.
    pub dockerfile: Option<PathBuf>,
    /// The name of the image; `None` leaves it with its id alone. A name that is taken by another image is refused.
    pub tag: Option<String>,
    /// Values for the Dockerfile's `ARG`s. They stay visible in the image's history: no place for secrets.
    pub args: BTreeMap<String, String>,
    /// The stage to build; `None` is the last one.
    pub target: Option<String>,
    /// Whether the build has the engine's default network, and may fetch what `ADD` names by address.
    pub network: bool,
    /// When the images that the Dockerfile starts from are pulled. Each of them has to be one of the policy's `images`.
    pub pull: PullPolicy,
    /// Whether results of earlier builds are used again.
    pub cache: bool,
}

impl BuildRequest {
    /// Builds the `Dockerfile` in this folder: without a network, pulling nothing, with the cache.
    pub fn new(context: impl Into<PathBuf>) -> Self {
        Self {
            context: context.into(),
            follow_links: false,
            dockerfile: None,
            tag: None,
            args: BTreeMap::new(),
            target: None,
            network: false,
            pull: PullPolicy::Never,
            cache: true,
        }
    }

    /// Builds another Dockerfile of the context.
    #[must_use]
    pub fn dockerfile(mut self, path: impl Into<PathBuf>) -> Self {
        self.dockerfile = Some(path.into());
        self
    }

    /// Sets whether links that leave their folder are followed in the path of the context.
    #[must_use]
    pub fn follow_links(mut self, follow: bool) -> Self {
        self.follow_links = follow;
        self
    }

    /// Names the image.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// Sets a value for an `ARG`.
    #[must_use]
    pub fn arg(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.args.insert(name.into(), value.into());
        self
    }

    /// Builds this stage.
    #[must_use]
    pub fn target(mut self, stage: impl Into<String>) -> Self {
        self.target = Some(stage.into());
        self
    }

    /// Sets whether the build has a network.
    #[must_use]
    pub fn network(mut self, network: bool) -> Self {
        self.network = network;
        self
    }

    /// Sets when base images are pulled.
    #[must_use]
    pub fn pull(mut self, pull: PullPolicy) -> Self {
        self.pull = pull;
        self
    }

    /// Sets whether results of earlier builds are used again.
    #[must_use]
    pub fn cache(mut self, cache: bool) -> Self {
        self.cache = cache;
        self
    }
}
