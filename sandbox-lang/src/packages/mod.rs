//! Python packages that are there before code runs.
//!
//! A *provision sandbox* installs them: short-lived, with a network (where wheels come from one), limits and a time limit of its own, and without the
//! secrets, the workspace, the roots and the variables of the sandbox that the packages are for. It writes into a folder of the
//! host's cache, which is then mounted read-only wherever the same packages are asked for. That folder is a Python *user base*
//! (`PYTHONUSERBASE`): behind the standard library in the search order, unlike `PYTHONPATH`, and with its `.pth` files read.
//!
//! Wheels alone are installed (`--only-binary :all:`). To build a package runs its code with the network, so a package that
//! exists as source alone is refused ([`sandbox_core::ErrorKind::PackageNeedsBuild`]).
//!
//! - [`PackageSource`]: the registry, as the host's own pip is told of it.
//! - [`Interpreter`]: the Python that sandboxes find, of the host or of an image.
//! - [`PackageSettings`]: the cache's folder, and the limits of an installation.
//! - [`provide`]: the folder, out of the cache or installed now.
//! - [`shown()`]: the plan of the sandbox that gets it.

mod cache;
mod configuration;
mod entry_lock;
mod failure;
mod install;
mod interpreter;
mod report;
mod seal;
mod settings;
mod shown;
mod source;
mod storage;

pub use install::{Installed, Order, provide};
pub use interpreter::Interpreter;
pub use report::{denied, installed, provisioned};
pub use settings::PackageSettings;
pub use shown::{in_reach, shown};
pub use source::PackageSource;

/// The variable that tells Python where a user base is.
pub const USER_BASE: &str = "PYTHONUSERBASE";

/// Where the folder of packages appears in a sandbox with a root of its own.
pub const TARGET: &str = "/packages";
