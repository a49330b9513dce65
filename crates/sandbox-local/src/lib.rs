//! The local Linux kernel as a sandbox backend.

mod cgroup;
mod config;
mod error;
mod host;
mod remains;
mod spawn;
mod state;
mod subordinate;

pub use config::LocalConfig;
