//! The chainable methods of a policy.

use std::path::Path;
use std::time::Duration;

use super::NetworkPolicy;
use crate::{ByteSize, Capability, CapabilityPolicy, Cpus, MountSource, Storage};

/// Each method sets the field of its name. A method with a singular name adds one entry to a list.
///
/// ```
/// use sandbox_core::{ByteSize, CapabilityPolicy};
/// use std::time::Duration;
///
/// let policy = CapabilityPolicy::new()
///     .filesystem_read_root("/data")
///     .memory(ByteSize::mib(64))
///     .timeout(Duration::from_secs(10))
///     .artifact_export_path("/output/*.csv");
/// assert_eq!(policy.memory, Some(ByteSize::mib(64)));
/// ```
impl CapabilityPolicy {
    /// Allows code to read this path of the host.
    #[must_use]
    pub fn filesystem_read_root(mut self, path: impl AsRef<Path>) -> Self {
        let roots = self.filesystem_read_roots.get_or_insert_default();
        roots.push(path.as_ref().to_owned());
        self
    }

    /// Allows code to read and write this path of the host.
    #[must_use]
    pub fn filesystem_write_root(mut self, path: impl AsRef<Path>) -> Self {
        let roots = self.filesystem_write_roots.get_or_insert_default();
        roots.push(path.as_ref().to_owned());
        self
    }

    /// Allows specifications to mount this path of the host elsewhere.
    #[must_use]
    pub fn mount_source(mut self, source: MountSource) -> Self {
        self.mount_sources.get_or_insert_default().push(source);
        self
    }

    /// Lets specifications mount storage by this name.
    #[must_use]
    pub fn storage(mut self, name: impl Into<String>, storage: Storage) -> Self {
        self.storage.insert(name.into(), storage);
        self
    }

    /// Sets whether links that leave their folder are followed.
    #[must_use]
    pub fn follow_links(mut self, follow: bool) -> Self {
        self.follow_links = Some(follow);
        self
    }

    /// Sets the network.
    #[must_use]
    pub fn network(mut self, network: NetworkPolicy) -> Self {
        self.network = Some(network);
        self
    }

    /// Sets whether packages may be installed.
    #[must_use]
    pub fn package_installation(mut self, allowed: bool) -> Self {
        self.package_installation = Some(allowed);
        self
    }

    /// Sets whether code may start other processes and programs.
    #[must_use]
    pub fn subprocess_execution(mut self, allowed: bool) -> Self {
        self.subprocess_execution = Some(allowed);
        self
    }

    /// Sets whether a specification may set environment variables.
    #[must_use]
    pub fn env_var_access(mut self, allowed: bool) -> Self {
        self.env_var_access = Some(allowed);
        self
    }

    /// Sets the time limit of each execution.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the longest lifetime of a sandbox.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Sets the time limit of each file operation.
    #[must_use]
    pub fn file_timeout(mut self, timeout: Duration) -> Self {
        self.file_timeout = Some(timeout);
        self
    }

    /// Sets how much standard output of an execution is captured.
    #[must_use]
    pub fn stdout_max_bytes(mut self, size: ByteSize) -> Self {
        self.stdout_max_bytes = Some(size);
        self
    }

    /// Sets how much standard error of an execution is captured.
    #[must_use]
    pub fn stderr_max_bytes(mut self, size: ByteSize) -> Self {
        self.stderr_max_bytes = Some(size);
        self
    }

    /// Allows the export of files that match this path inside the sandbox.
    #[must_use]
    pub fn artifact_export_path(mut self, pattern: impl Into<String>) -> Self {
        self.artifact_export_paths.push(pattern.into());
        self
    }

    /// Installs this package before code runs: a [`Requirement`](super::Requirement).
    #[must_use]
    pub fn package(mut self, requirement: impl Into<String>) -> Self {
        self.packages.push(requirement.into());
        self
    }

    /// Sets the memory of a sandbox.
    #[must_use]
    pub fn memory(mut self, size: ByteSize) -> Self {
        self.memory = Some(size);
        self
    }

    /// Sets the processors of a sandbox.
    #[must_use]
    pub fn cpus(mut self, cpus: Cpus) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Sets the number of processes of a sandbox.
    #[must_use]
    pub fn pids(mut self, count: u32) -> Self {
        self.pids = Some(count);
        self
    }

    /// Sets the size of a sandbox's own storage.
    #[must_use]
    pub fn disk(mut self, size: ByteSize) -> Self {
        self.disk = Some(size);
        self
    }

    /// Sets the number of open descriptors of a process.
    #[must_use]
    pub fn open_files(mut self, count: u32) -> Self {
        self.open_files = Some(count);
        self
    }

    /// Allows images that match this [`crate::ImagePattern`].
    #[must_use]
    pub fn image(mut self, pattern: impl Into<String>) -> Self {
        let images = self.images.get_or_insert_default();
        images.push(pattern.into());
        self
    }

    /// Allows specifications to name this secret.
    #[must_use]
    pub fn secret(mut self, name: impl Into<String>) -> Self {
        self.secrets.push(name.into());
        self
    }

    /// Sets whether defaults are required too.
    #[must_use]
    pub fn require_all(mut self, required: bool) -> Self {
        self.require_all = required;
        self
    }

    /// Accepts partial enforcement of this capability.
    #[must_use]
    pub fn allow_partial(mut self, capability: Capability) -> Self {
        self.allow_partial.push(capability);
        self
    }

    /// Accepts that this capability is not enforced.
    #[must_use]
    pub fn allow_unenforced(mut self, capability: Capability) -> Self {
        self.allow_unenforced.push(capability);
        self
    }
}
