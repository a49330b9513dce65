//! Sandboxes as containers of an engine with Docker's API. The Docker and Podman backends share
//! this crate, so neither links the other. The crate registers no tier itself.
//!
//! A sandbox is a container without network, with a read-only root and writable folders of a fixed
//! size. The agent runs from its own volume; its attached stream goes to
//! [`sandbox_host::AgentInstance`]. Images are pulled only on request.
//!
//! A [`Family`] describes how one engine differs from others. A backend is a type of a few lines:
//! its family, and where to find its engine.

mod adopt;
mod attached;
mod backend;
mod background_removal;
mod cgroup;
mod claim;
mod conda;
mod config;
mod create;
mod creation_turn;
mod default_paths;
mod detached;
mod doctor;
mod egress;
mod engine;
pub mod env_var;
mod error;
mod family;
mod folders;
mod identity;
mod image;
mod isolator;
mod label_origin;
mod labels;
mod launch;
mod lowering;
#[cfg(feature = "mutants")]
mod mutation;
mod named_volumes;
mod options;
mod packages;
mod quota;
mod reconnect;
mod removal;
mod report;
mod settings;
mod stream;
mod sweep;
mod verify;
mod volume;

pub use backend::ContainerBackend;
pub use config::{ContainerConfig, IMAGE_TIMEOUT};
pub use engine::{Candidates, Endpoint, EngineFacts, HardLimits, KernelIsolation, ListedContainer};
pub use family::{EngineFamily, FactsCorrection, Family, NativeApi, PathOptions, ProfileForm};
#[cfg(feature = "mutants")]
#[doc(hidden)]
pub use mutation::ContainerMutation;
pub use options::{EngineOptions, Ulimit};
pub use sandbox_host::DEFAULT_IMAGE;
pub use sandbox_lang::packages::{PackageSettings, PackageSource, RegistrySource};
pub use settings::SETTINGS;

pub(crate) use family::Tier;
