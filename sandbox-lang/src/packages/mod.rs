//! Packages of registries, installed before code runs.
//!
//! A *provision sandbox* installs them. It is short-lived and has its own limits and time limit,
//! and a network if packages come from one. It has none of the secrets, workspace, roots and
//! variables of the sandbox that the packages are for. It writes to a folder of the host's cache,
//! which is then mounted read-only wherever the same packages are requested. To and
//! from a sandbox that sees no folder of this host, what it needs is copied.
//!
//! No code of a package runs in a provision sandbox, which may have a network. What would need it
//! is refused ([`sandbox_core::ErrorKind::PackageNeedsBuild`]).
//!
//! | installer | packages are at | found through | not installed |
//! |---|---|---|---|
//! | pip | `/packages` | `PYTHONUSERBASE` | packages without a wheel |
//! | npm | `/node_modules` | every file's parent folders, `NODE_PATH` | Git dependencies; install scripts do not run |
//! | gem | `/gems` | `GEM_PATH` | native extensions that must be compiled, plugins of gem |
//! | cargo | `/cargo-packages` | `CARGO_HOME` | packages of other registries, and of repositories |
//! | go | `/go-packages` | `GOWORK`, `GOMODCACHE` | modules of repositories without a module proxy |
//!
//! - [`PackageSource`]: the package index, as configured for the host's pip.
//! - [`RegistrySource`]: the registry of another installer, as configured on the host.
//! - [`Interpreter`]: the installer's program in sandboxes, from the host or from an image.
//! - [`PackageSettings`]: the cache folder and the limits of an installation.
//! - [`provide`]: returns the folder, from the cache or newly installed.
//! - [`LiveSandbox`]: a sandbox into which packages are installed while it runs.
//! - [`PackageProvider`]: adds all folders of a plan to it.

mod archive;
mod cache;
mod cargo;
mod cran;
mod entry_lock;
mod entry_records;
mod failed;
mod failure;
mod gem;
mod go;
mod hosts;
mod install;
mod installer_errors;
mod interpreter;
mod live;
mod live_folder;
mod npm;
mod pip;
mod plan;
mod recipe;
mod registry_source;
mod report;
mod settings;
mod storage;
mod transfer;

pub(crate) use cargo::program_manifest;
pub use failed::FailedPackages;
pub use hosts::registry_rules;
pub use install::{InstallRequest, Installed, provide};
pub use interpreter::Interpreter;
pub use live::LiveSandbox;
pub(crate) use live::{live_packages, live_variables};
pub use pip::PackageSource;
pub use plan::{PackageProvider, targets, with_packages, writable_cache};
pub use registry_source::RegistrySource;
pub use report::{ProvisionNetwork, denied, installed, provisioned};
pub use settings::PackageSettings;
pub use storage::used as disk_usage;
pub use transfer::send_packages;
