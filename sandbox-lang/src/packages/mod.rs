//! Python packages, installed before code runs.
//!
//! A *provision sandbox* installs them. It is short-lived and has its own limits and time limit,
//! and a network if wheels come from one. It has none of the secrets, workspace, roots and
//! variables of the sandbox that the packages are for. It writes to a folder of the host's cache,
//! which is then mounted read-only wherever the same packages are requested. That folder is a
//! Python *user base* (`PYTHONUSERBASE`): it comes after the standard library in the search order,
//! unlike `PYTHONPATH`, and its `.pth` files are read.
//!
//! Only wheels are installed (`--only-binary :all:`). Building a package would run its code with a
//! network, so a package without a wheel is refused
//! ([`sandbox_core::ErrorKind::PackageNeedsBuild`]).
//!
//! - [`PackageSource`]: the package index, as configured for the host's pip.
//! - [`Interpreter`]: the Python of sandboxes, from the host or from an image.
//! - [`PackageSettings`]: the cache folder and the limits of an installation.
//! - [`provide`]: returns the folder, from the cache or newly installed.
//! - [`with_packages()`]: adds the folder to a plan.

mod cache;
mod configuration;
mod entry_lock;
mod entry_records;
mod failed;
mod failure;
mod install;
mod interpreter;
mod plan;
mod report;
mod settings;
mod source;
mod storage;

pub use failed::FailedPackages;
pub use install::{InstallRequest, Installed, provide};
pub use interpreter::Interpreter;
pub use plan::{with_packages, writable_cache};
pub use report::{denied, installed, provisioned};
pub use settings::PackageSettings;
pub use source::PackageSource;

/// The variable that tells Python its user base.
pub const USER_BASE: &str = "PYTHONUSERBASE";

/// The path of the package folder in a sandbox with its own root.
pub const TARGET: &str = "/packages";
