//! What a probe is.

use std::collections::BTreeMap;
use std::path::Path;

use futures_util::future::BoxFuture;
use sandbox_core::matrix::Subject;
use sandbox_core::{CapabilityPolicy, Workspace};

use crate::grounds::Grounds;
use crate::stage::Stage;

/// One attack or one behaviour, with its controls, its oracle and the signs by which it may be stopped.
///
/// Each lives in a file of its own under `probes/`.
#[derive(Debug)]
pub struct Probe {
    /// Area and name: `network::tcp4_host_listener`.
    pub id: &'static str,
    /// Raised whenever a change can change a verdict.
    pub version: u32,
    /// What it is about.
    pub subject: Subject,
    /// Who could fail it.
    pub kind: Kind,
    /// One sentence that says what is tried.
    pub summary: &'static str,
    /// The sandbox that is attacked.
    pub setting: fn(&Grounds) -> Setting,
    /// The sandbox of the allow control, where the attacked one cannot permit the operation.
    pub permitting: Option<fn(&Grounds) -> Setting>,
    /// How the attack may be stopped.
    pub denials: &'static [Denial],
    /// Runs controls, attack and oracle, and records each on the stage.
    pub run: for<'a> fn(&'a mut Stage) -> BoxFuture<'a, Result<(), Trouble>>,
}

impl Probe {
    /// The part of the name before the `::`.
    #[must_use]
    pub fn area(&self) -> &'static str {
        self.id.split_once("::").map_or(self.id, |(area, _)| area)
    }
}

/// Who could fail a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The isolation: a backend without any must leak it.
    Isolation,
    /// The behaviour of the whole, which a backend without isolation may well show.
    Behavior,
}

/// A sign by which an attack may be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Denial {
    /// The sign: the name of an error (`EACCES`), or how the program ended.
    pub sign: &'static str,
    /// The mechanism that gives it.
    pub means: &'static str,
}

/// The sandbox that a probe needs. Probes of equal settings share one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Setting {
    /// The policy.
    pub policy: CapabilityPolicy,
    /// The environment that the specification names.
    pub env: BTreeMap<String, String>,
    /// The folder of the host that appears at `/workspace`.
    pub workspace: Option<Workspace>,
    /// A sandbox of its own, ended afterwards.
    pub fresh: bool,
    /// One more sandbox beside the one of the same setting; see [`crate::Stage::with_neighbors`].
    pub neighbor: bool,
    /// A backend that takes no folders of this host makes it without the policy's roots; see [`crate::Stage::granted`].
    pub roots_if_taken: bool,
}

impl Setting {
    /// Every default, changed by `change`.
    pub fn with(change: impl FnOnce(&mut CapabilityPolicy)) -> Self {
        let mut policy = CapabilityPolicy::new();
        change(&mut policy);
        Self {
            policy,
            ..Self::default()
        }
    }

    /// The same with a workspace that the code may read and write.
    #[must_use]
    pub fn workspace(mut self, folder: &Path) -> Self {
        self.workspace = Some(Workspace::read_write(folder));
        self
    }

    /// The same once more, beside the first.
    #[must_use]
    pub fn neighbor(mut self) -> Self {
        self.neighbor = true;
        self
    }

    /// The same, without roots of this host where the backend takes none.
    #[must_use]
    pub fn roots_if_taken(mut self) -> Self {
        self.roots_if_taken = true;
        self
    }

    /// The same without roots of this host; `None` where it has none, or insists on them.
    pub(crate) fn without_roots(&self) -> Option<Self> {
        let mut setting = self.clone();
        let policy = &mut setting.policy;
        let roots = [
            policy.filesystem_read_roots.take(),
            policy.filesystem_write_roots.take(),
        ];
        (self.roots_if_taken && roots.iter().any(Option::is_some)).then_some(setting)
    }

    /// The same in a sandbox of its own.
    #[must_use]
    pub fn fresh(mut self) -> Self {
        self.fresh = true;
        self
    }
}

/// The probe's own means failed: the host or the suite, not the sandbox.
#[derive(Debug)]
pub struct Trouble(String);

impl Trouble {
    /// What failed.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}
