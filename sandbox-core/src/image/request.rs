//! Requests for images.

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
    /// Never: a missing image is an error.
    #[default]
    Never,
    /// If the engine does not have the image.
    Missing,
    /// Always, which follows a tag that has moved.
    Always,
}

impl PullPolicy {
    /// Every value.
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

/// What happens to a fetched image after its sandbox has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageRetention {
    /// The image stays.
    #[default]
    Keep,
    /// The image is removed if this client's backend pulled or built it, unless another container
    /// uses it. An image that was there before stays, and so does the image of a killed client.
    /// Tiers that cannot remove images refuse with `InvalidSpec`: those without images, Kubernetes,
    /// whose nodes own their images, and adopted containers.
    Remove,
}

/// A request to build an image from a Dockerfile.
///
/// The engine's builder runs the Dockerfile's commands with the engine's defaults and without a
/// policy: as root in its own container, with no host folder but the context, and without a
/// network unless [`BuildRequest::network`] is set.
///
/// Builders disagree about some Dockerfiles. What they read differently is refused with
/// `InvalidRequest`: among others heredocs, `ONBUILD`, most parser directives, and mounts other
/// than `tmpfs`. `docs/engines.md` has the full list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildRequest {
    /// The host folder that the build can copy from. Files that `.dockerignore` names are not sent.
    pub context: PathBuf,
    /// Whether links in the path of the context may leave their folder. A policy can also allow it.
    pub follow_links: bool,
    /// The path of the Dockerfile within the context, without links; `None` is `Dockerfile`.
    pub dockerfile: Option<PathBuf>,
    /// The name of the image. `None` gives it no name. A name of another image is refused.
    pub tag: Option<String>,
    /// Values of the Dockerfile's `ARG`s. They stay visible in the image's history, so they must
    /// not be secret.
    pub args: BTreeMap<String, String>,
    /// The stage to build; `None` is the last one.
    pub target: Option<String>,
    /// Whether the build has the engine's default network, and may fetch what `ADD` names by URL.
    pub network: bool,
    /// When to pull the base images of the Dockerfile. The policy's `images` must allow each.
    pub pull: PullPolicy,
    /// Whether the build uses the results of earlier builds.
    pub cache: bool,
}

impl BuildRequest {
    /// Builds the `Dockerfile` in this folder: without a network, without pulling, with the cache.
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

    /// Sets whether links in the path of the context may leave their folder.
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

    /// Sets whether the build uses the results of earlier builds.
    #[must_use]
    pub fn cache(mut self, cache: bool) -> Self {
        self.cache = cache;
        self
    }
}
