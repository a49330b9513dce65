//! Sandboxes as containers of an engine that speaks Docker's API: what the backends of Docker and Podman share, so that neither
//! has to link (and so register) the other. Registers no tier itself.
//!
//! Makes a container without network, with a read-only root and sized writable folders, starts the agent in it from a volume
//! of its own, and hands the attached stream to [`sandbox_host::AgentInstance`]. Images are pulled where somebody says so, and only then.
//!
//! What engines do differently is said by a [`Family`]: a value of facts and few functions. A backend is a type of a few lines:
//! its family, and where its engine is found.

mod adopt;
mod applied;
mod backend;
mod cgroup;
mod config;
mod create;
mod doctor;
mod engine;
mod error;
mod family;
mod folders;
mod identity;
mod image;
mod isolator;
mod kept;
mod labels;
mod launch;
mod lower;
#[cfg(feature = "mutants")]
mod mutation;
mod options;
mod origin;
mod owner;
mod packages;
mod quota;
mod reconnect;
mod removal;
mod remover;
mod report;
mod settings;
mod stream;
mod sweep;
mod usual_paths;
pub mod variable;
mod volume;

pub use backend::ContainerBackend;
pub use config::{ContainerConfig, DEFAULT_IMAGE, IMAGE_TIMEOUT};
pub use engine::{Candidates, Endpoint, EngineFacts, HardLimits, Listed, Shell};
pub use family::{Correction, Family, Native, OfFamily, PathOptions, ProfileForm};
#[cfg(feature = "mutants")]
#[doc(hidden)]
pub use mutation::Mutation;
pub use options::{EngineOptions, Ulimit};
pub use sandbox_lang::packages::{PackageSettings, PackageSource};
pub use settings::SETTINGS;

pub(crate) use family::Tier;
