//! The definition of a probe.

use std::collections::BTreeMap;
use std::path::Path;

use futures_util::future::BoxFuture;
use sandbox_core::matrix::Subject;
use sandbox_core::{CapabilityPolicy, Workspace};

use crate::context::ProbeContext;
use crate::host_fixture::HostFixture;
use crate::probes::signs;

/// The result of running a probe, boxed so that a probe can be a constant.
pub type ProbeFuture<'a> = BoxFuture<'a, Result<(), ProbeError>>;

/// Runs the controls, the attack and the host check of a probe, and records each in the context.
pub type Procedure = for<'a> fn(&'a mut ProbeContext) -> ProbeFuture<'a>;

/// One attack or one behavior, with its controls, its host check and the accepted denials.
///
/// The probes of an area are a table in `probes/AREA.rs`.
///
/// ```
/// let probe = &sandbox_conformance::probes::all()[0];
/// assert!(probe.id.starts_with(probe.area()));
/// ```
#[derive(Debug)]
pub struct Probe {
    /// Area and name: `network::tcp4_host_listener`.
    pub id: &'static str,
    /// Raised with every change that can change a verdict.
    pub version: u32,
    /// The capability or feature that the probe is about.
    pub subject: Subject,
    /// Whether the probe tests isolation or behavior.
    pub kind: ProbeKind,
    /// One phrase that says what the probe tries.
    pub summary: &'static str,
    /// Whether it mostly waits, and so needs no processor.
    pub waits: bool,
    /// The sandbox that the probe attacks.
    pub setup: fn(&HostFixture) -> SandboxSetup,
    /// The sandbox of the allow control, if the attacked one cannot permit the operation.
    pub allow_setup: Option<fn(&HostFixture) -> SandboxSetup>,
    /// The accepted denials of the attack.
    pub denials: &'static [ExpectedDenial],
    /// Runs the controls, the attack and the host check.
    pub run: Procedure,
}

impl Probe {
    /// An attack that isolation must stop, in a sandbox with every default.
    ///
    /// `denials` lists how the attack may be stopped.
    #[must_use]
    pub const fn isolation(
        id: &'static str,
        subject: Subject,
        summary: &'static str,
        denials: &'static [ExpectedDenial],
        run: Procedure,
    ) -> Self {
        Self {
            id,
            version: 1,
            subject,
            kind: ProbeKind::Isolation,
            summary,
            waits: false,
            setup: |_| SandboxSetup::default(),
            allow_setup: None,
            denials,
            run,
        }
    }

    /// A documented behavior, in a sandbox with every default.
    #[must_use]
    pub const fn behavior(
        id: &'static str,
        subject: Subject,
        summary: &'static str,
        run: Procedure,
    ) -> Self {
        let probe = Self::isolation(id, subject, summary, signs::AS_DOCUMENTED, run);
        Self {
            kind: ProbeKind::Behavior,
            ..probe
        }
    }

    /// Sets the version.
    #[must_use]
    pub const fn version(self, version: u32) -> Self {
        Self { version, ..self }
    }

    /// Marks a probe that mostly waits. It runs beside others without counting as one of them.
    #[must_use]
    pub const fn waits(self) -> Self {
        Self {
            waits: true,
            ..self
        }
    }

    /// Sets the sandbox that is attacked.
    #[must_use]
    pub const fn setup(self, setup: fn(&HostFixture) -> SandboxSetup) -> Self {
        Self { setup, ..self }
    }

    /// Sets the sandbox of the allow control.
    #[must_use]
    pub const fn allow_setup(self, setup: fn(&HostFixture) -> SandboxSetup) -> Self {
        Self {
            allow_setup: Some(setup),
            ..self
        }
    }

    /// Sets how the attack may be stopped.
    #[must_use]
    pub const fn denials(self, denials: &'static [ExpectedDenial]) -> Self {
        Self { denials, ..self }
    }

    /// The part of the name before the `::`.
    #[must_use]
    pub fn area(&self) -> &'static str {
        self.id.split_once("::").map_or(self.id, |(area, _)| area)
    }
}

/// What a probe tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    /// Isolation. A backend without isolation must leak it.
    Isolation,
    /// A documented behavior. A backend without isolation may pass it.
    Behavior,
}

/// An accepted denial of an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpectedDenial {
    /// The name of an errno (`EACCES`), or how the program ended (`timed_out`).
    pub sign: &'static str,
    /// The mechanism behind it.
    pub means: &'static str,
}

/// The sandbox that a probe needs. Probes with equal setups share one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SandboxSetup {
    /// The policy.
    pub policy: CapabilityPolicy,
    /// The environment variables of the specification.
    pub env: BTreeMap<String, String>,
    /// The specification's own rules for connections.
    pub egress: Option<Vec<String>>,
    /// The host folder that appears at `/workspace`.
    pub workspace: Option<Workspace>,
    /// Whether the probe gets its own sandbox, which ends with the probe.
    pub fresh: bool,
    /// Whether this is a second sandbox beside the one with the same setup; see
    /// [`crate::ProbeContext::with_neighbors`].
    pub neighbor: bool,
    /// Whether the policy's roots are left out on a backend that takes no folders of this host; see
    /// [`crate::ProbeContext::granted`].
    pub roots_if_supported: bool,
}

impl SandboxSetup {
    /// The default setup with a policy changed by `change`.
    pub fn with(change: impl FnOnce(&mut CapabilityPolicy)) -> Self {
        let mut policy = CapabilityPolicy::new();
        change(&mut policy);
        Self {
            policy,
            ..Self::default()
        }
    }

    /// Adds a workspace that code may read and write.
    #[must_use]
    pub fn workspace(mut self, folder: &Path) -> Self {
        self.workspace = Some(Workspace::read_write(folder));
        self
    }

    /// Asks for a second sandbox beside the first.
    #[must_use]
    pub fn neighbor(mut self) -> Self {
        self.neighbor = true;
        self
    }

    /// Leaves out roots of this host on a backend that takes none.
    #[must_use]
    pub fn roots_if_supported(mut self) -> Self {
        self.roots_if_supported = true;
        self
    }

    /// This setup without roots of this host. `None` if it has none or requires them.
    pub(crate) fn without_roots(&self) -> Option<Self> {
        let mut setup = self.clone();
        let policy = &mut setup.policy;
        let roots = [
            policy.filesystem_read_roots.take(),
            policy.filesystem_write_roots.take(),
        ];
        (self.roots_if_supported && roots.iter().any(Option::is_some)).then_some(setup)
    }

    /// Asks for its own sandbox.
    #[must_use]
    pub fn fresh(mut self) -> Self {
        self.fresh = true;
        self
    }
}

/// A failure of the host or the suite, not of the sandbox.
#[derive(Debug)]
pub struct ProbeError(String);

impl ProbeError {
    /// An error with this message.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl std::fmt::Display for ProbeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for ProbeError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}
