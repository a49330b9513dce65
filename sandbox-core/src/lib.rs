//! Policy, plan, admission, registry, client and matrix of the sandbox workspace. It names no
//! backend, and does no input or output itself.
//!
//! A caller gives a [`SandboxSpec`] to a [`SandboxClient`]. The client combines it with its
//! [`CapabilityPolicy`] into a [`Plan`] and asks the [`spi::Backend`] what this host enforces of it.
//! If that is less than required, [`admission`] refuses it; else the caller gets a
//! [`SandboxHandle`].
//!
//! Programs use the root package `sandbox`, which re-exports this one. [`spi`] is for backends.

pub mod admission;
mod artifact;
pub mod audit;
pub mod blocking;
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
mod extensions;
pub mod fake;
mod file_entry;
mod files;
mod forward;
mod handle;
mod image;
mod info;
mod input;
pub mod matrix;
mod mechanism;
mod mount;
mod one_shot;
mod outcome;
mod parse_error;
pub mod plan;
pub mod policy;
mod pool;
pub mod registry;
mod running;
mod secret;
mod spec;
pub mod spi;
mod stats;
mod stdin;
mod storage;
pub mod support;
mod trust;
mod unique_name;
mod units;
mod user;
mod workspace;

pub use artifact::{Artifact, ArtifactLimits, Copied, Export, SkipReason, SkippedArtifact};
pub use capability::Capability;
pub use client::SandboxClient;
pub use denial::{Denial, DenialKind, Denials, Refusal};
pub use enforcement::{Enforcement, EnforcementReport};
pub use error::{Error, ErrorKind, Result};
pub use event::ExecEvent;
pub use exec::{Captured, ExecEnd, ExecRequest, ExecResult, TerminalSize};
pub use execution::Execution;
pub use file_entry::{FileEntry, FileKind};
pub use forward::Forward;
pub use handle::SandboxHandle;
pub use image::{
    BuildRequest, ImageEvent, ImageInfo, ImagePattern, ImageProgress, ImageReference,
    ImageRetention, PullPolicy,
};
pub use info::{SandboxInfo, SandboxOwner, SandboxState};
pub use matrix::CompatibilityMatrix;
pub use mechanism::{
    CgroupController, CgroupLimit, CgroupVersion, LimitOwner, Mechanism, Mechanisms,
};
pub use mount::{HostMount, MAX_MOUNTS, MountSource};
pub use one_shot::{OneShot, OneShotResult};
pub use outcome::Outcome;
pub use plan::{Demand, Level, Plan, ProvidedFolder, Unmet};
pub use policy::CapabilityPolicy;
pub use pool::{Exhausted, PoolSettings, PoolStatus, PooledSandbox, SandboxPool};
pub use secret::{Secret, SecretForm, SecretValue};
pub use spec::{SandboxSpec, Workspace};
pub use spi::{Flow, OutputSink, OutputStream};
pub use stats::SandboxStats;
pub use stdin::{Stdin, StdinWriter};
pub use storage::{Storage, StorageMount, StoragePlace, StorageVolume};
pub use units::{ByteSize, Cpus};
pub use workspace::{Conflict, HostChange, Synced, WorkspaceCopies};
