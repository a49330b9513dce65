//! The local Linux kernel as a sandbox backend.
//!
//! A sandbox is a tree of processes in namespaces of its own, with a root that holds only what its policy grants. The first of
//! them is the agent ([`sandbox_agent::program`]), executed from a file in memory; everything after that is the same as on
//! every other backend ([`sandbox_host`]).
//!
//! How far the host takes part is found out by trying ([`LocalBackend`] says in which three ways it can go), and what is not
//! enforced is reported, capability by capability.
//!
//! - `host`: what this host has; `lower`: from a plan to what is done for it, pure.
//! - `spawn`: the process; `cgroup`, `systemd`, `subordinate`: limits and users; `start` puts them together.
//! - `packages`: the folder of a plan's packages, by a sandbox of this backend.
//! - `isolator`, `remains`: its end, after which nothing is left.
//! - `detached`: sandboxes that outlive the process that made them, each with a keeper.

mod backend;
mod cgroup;
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
mod remains;
mod sampler;
mod setup;
mod spawn;
mod stale;
mod start;
mod state;
mod subordinate;
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
pub use mutation::Mutation;
pub use sandbox_lang::packages::{PackageSettings, PackageSource};
pub use unsafe_tier::UnsafeLocalBackend;

fn open() -> Result<Arc<dyn Backend>> {
    Ok(Arc::new(LocalBackend::default()))
}

fn open_unsafe() -> Result<Arc<dyn Backend>> {
    Ok(Arc::new(UnsafeLocalBackend::default()))
}

/// What was measured of this tier, by `cargo xtask matrix --write`.
const PROFILES: &[(&str, &str)] = &[
    (
        "local-root-95362d8e.json",
        include_str!("../../matrix/local-root-95362d8e.json"),
    ),
    (
        "local-user-9504b5b0.json",
        include_str!("../../matrix/local-user-9504b5b0.json"),
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
