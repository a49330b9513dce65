//! Traits, capability policy, admission, artifacts, matrix and registry of the sandbox workspace: no input or output, no
//! backend's name.
//!
//! A caller hands a [`SandboxSpec`] to a [`SandboxClient`]. The client resolves it against its [`CapabilityPolicy`] into a
//! [`Plan`], asks the [`spi::Backend`] what it would enforce of it on this host, refuses what is required and would not be
//! ([`admission`]), and hands back a [`SandboxHandle`].

pub mod admission;
mod artifact;
mod capability;
mod capture;
mod client;
mod denial;
mod enforcement;
mod error;
mod escape;
mod event;
mod exec;
mod execution;
pub mod fake;
mod handle;
mod image;
mod info;
mod input;
pub mod matrix;
mod one_shot;
mod outcome;
pub mod plan;
pub mod policy;
pub mod registry;
mod running;
mod spec;
pub mod spi;
mod stdin;
pub mod support;
mod units;
mod workspace;

pub use artifact::{Artifact, ArtifactLimits, Copied, Export, SkipReason, SkippedArtifact};
pub use capability::Capability;
pub use client::{SandboxClient, unique_name};
pub use denial::{Denial, DenialKind, Denials, Refusal};
pub use enforcement::{Enforcement, EnforcementReport};
pub use error::{Error, ErrorKind, Result};
pub use escape::escape;
pub use event::ExecEvent;
pub use exec::{Captured, ExecEnd, ExecRequest, ExecResult};
pub use execution::Execution;
pub use handle::{STOP_GRACE, SandboxHandle};
pub use image::{
    BuildRequest, ImageEvent, ImageInfo, ImagePattern, ImageProgress, ImageReference,
    ImageRetention, PullPolicy,
};
pub use info::{SandboxInfo, SandboxState};
#[doc(hidden)]
pub use inventory;
pub use matrix::CompatibilityMatrix;
pub use one_shot::{OneShot, OneShotResult};
pub use outcome::Outcome;
pub use plan::{Demand, Level, Plan, Provided, Unmet};
pub use policy::CapabilityPolicy;
pub use spec::{SandboxSpec, Workspace};
pub use stdin::{Stdin, StdinWriter};
pub use units::{ByteSize, Cpus};
pub use workspace::{Conflict, HostChange, MOST_NAMED, Synced, WorkspaceCopies};
