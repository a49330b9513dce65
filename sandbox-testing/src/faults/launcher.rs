//! How a test starts an engine.

use std::path::Path;
use std::sync::Arc;

use bollard::Docker;
use sandbox_container::ContainerConfig;
use sandbox_core::spi::Backend;

/// Starts engines of one kind. An engine keeps everything in a folder that the test removes.
pub trait EngineLauncher: Sync {
    /// The tier that applies the policy.
    fn tier(&self) -> &'static str;

    /// Makes the backend of this tier.
    fn backend(&self, config: ContainerConfig) -> Arc<dyn Backend>;

    /// The programs that must be installed.
    fn programs(&self) -> &'static [&'static str];

    /// The daemon's arguments that map the users of all containers to subordinate ones of
    /// `sandboxremap`. Empty where there are none.
    fn user_remap_arguments(&self) -> &'static [&'static str];

    /// Whether containers keep running while their engine does not.
    fn containers_outlive_engine(&self) -> bool;

    /// Why the current user cannot start an engine; `None` where it can.
    fn unavailable(&self) -> Option<String> {
        None
    }

    /// Connects to a running engine that has the test image.
    fn image_source(&self) -> Docker;

    /// Writes the configuration into the engine's folder. Called once, before the first start.
    fn prepare(&self, folder: &Path);

    /// The command that starts the engine's daemon and listens at `address`.
    fn command(&self, folder: &Path, address: &str) -> DaemonCommand;

    /// Removes what a killed daemon has left and the next one would wait for. Called before each
    /// start.
    fn clear(&self, folder: &Path);

    /// Ends what is left after the last daemon, except processes that have the folder's path in
    /// their arguments.
    fn clean_up(&self, _folder: &Path) {}
}

/// A command that starts a daemon.
pub struct DaemonCommand {
    /// The program.
    pub program: &'static str,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its environment variables, beside those of the test.
    pub environment: Vec<(&'static str, String)>,
}
