//! The local Linux kernel as a sandbox backend.
//!
//! A sandbox is a tree of processes in its own namespaces. Its root file system holds only what the
//! policy grants. The first process is the agent ([`sandbox_agent::program`]), executed from a
//! memory file. From there on, everything works as on every other backend ([`sandbox_host`]).
//!
//! The backend probes what the host supports ([`LocalBackend`] lists the three isolation modes) and
//! reports, per capability, what it cannot enforce.
//!
//! - `host`: what this host supports; `lower`: turns a plan into host operations, without I/O.
//! - `spawn`: starts processes; `cgroup`, `systemd`, `subordinate`: limits and users; `start`:
//!   creates a sandbox from these.
//! - `packages`: installs a plan's packages in a sandbox of this backend.
//! - `isolator`, `cleanup`: end a sandbox and remove everything it has on the host.
//! - `detached`: sandboxes that outlive the process that created them, each with a supervisor.

mod attached;
mod backend;
mod cgroup;
mod cleanup;
mod config;
mod detached;
mod error;
mod etc_folder;
mod host;
mod isolator;
mod lower;
#[cfg(feature = "mutants")]
mod mutation;
mod owned_folder;
mod owned_name;
mod packages;
mod python_alias;
mod sampler;
mod setup;
mod spawn;
mod start;
mod state;
mod subordinate;
mod sweep;
mod systemd;
mod unsafe_tier;

use std::sync::Arc;

use sandbox_core::Result;
use sandbox_core::registry::Registration;
use sandbox_core::spi::Backend;

pub use backend::LocalBackend;
pub use config::LocalConfig;
#[cfg(feature = "mutants")]
#[doc(hidden)]
pub use mutation::LocalMutation;
pub use sandbox_lang::packages::{PackageSettings, PackageSource, RegistrySource};
pub use unsafe_tier::UnsafeLocalBackend;

fn open() -> Result<Arc<dyn Backend>> {
    Ok(Arc::new(LocalBackend::default()))
}

fn open_unsafe() -> Result<Arc<dyn Backend>> {
    Ok(Arc::new(UnsafeLocalBackend::default()))
}

/// Measured profiles of this tier, written by `cargo xtask matrix --write`.
const PROFILES: &[(&str, &str)] = &[
    (
        "local-root-155caa64.json",
        include_str!("../matrix/local-root-155caa64.json"),
    ),
    (
        "local-root-95362d8e.json",
        include_str!("../matrix/local-root-95362d8e.json"),
    ),
    (
        "local-user-4e160a0c.json",
        include_str!("../matrix/local-user-4e160a0c.json"),
    ),
    (
        "local-user-9504b5b0.json",
        include_str!("../matrix/local-user-9504b5b0.json"),
    ),
];

sandbox_core::register!(
    Registration::new(
        backend::TIER,
        "local",
        "namespaces, Landlock, seccomp and control groups of this machine's kernel",
        open
    )
    .with_profiles(PROFILES)
);

sandbox_core::register!(
    Registration::new(
        unsafe_tier::TIER,
        "local",
        "programs of this machine as the caller, without isolation or policy",
        open_unsafe
    )
    .without_policy()
);
