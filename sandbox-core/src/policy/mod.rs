//! The operator's ceiling: what code in a sandbox may do.

mod builder;
mod explain;
mod file;
mod network;
mod preset;
mod requirement;

pub use explain::Explanation;
pub use file::{PolicyFile, json_schema};
pub use network::{
    AddressClass, Decision, Destination, EgressDenial, EgressRules, EgressTarget, HostName,
    IpNetwork, MAX_NETWORK_RULES, MAX_WILDCARD_LABELS, MAX_WILDCARD_LENGTH, NetworkPolicy,
    NetworkRule, NotCovered, RequestFilter, RuleLevel,
};
pub use preset::Preset;
pub(crate) use requirement::requirements;
pub use requirement::{Installer, Requirement};

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::{
    ByteSize, Capability, Cpus, Error, ErrorKind, HostMount, ImagePattern, MountSource, Result,
    Storage,
};

/// The minimum storage of a sandbox. A tmpfs has whole pages, and a size of 0 means "no limit" to
/// the kernel.
const MIN_DISK: ByteSize = ByteSize::kib(4);

/// The shortest time limit of file operations.
const MIN_FILE_TIMEOUT: Duration = Duration::from_millis(1);

/// The most that a sandbox may do, and how much of it must be enforced.
///
/// An unset field has its default. Isolation (files, network, environment, processes, privileges)
/// and every limit that the policy or the specification states are *required*: a backend that
/// cannot enforce one of them refuses to create the sandbox. A limit that comes from a default is
/// *wanted*: it is applied as far as the host can, and reported.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct CapabilityPolicy {
    /// Paths of the host that can be read, in addition to the platform's programs and libraries on
    /// the local tiers, or the image on the others. Unset: none.
    pub filesystem_read_roots: Option<Vec<PathBuf>>,
    /// Paths of the host that can be read and written. Unset: none. The sandbox's own temporary
    /// folders are always writable.
    pub filesystem_write_roots: Option<Vec<PathBuf>>,
    /// Paths of the host that a specification may mount elsewhere, besides the roots. Unset: what
    /// the roots allow, or any path if no root is set either: see [`Self::allows_mount`].
    pub mount_sources: Option<Vec<MountSource>>,
    /// Storage that a specification may mount by name.
    pub storage: BTreeMap<String, Storage>,
    /// Whether links that leave their folder are followed in host paths of the policy and the
    /// specification. Unset: no, except for links of the system. A link in a place where the policy
    /// lets code write is never followed.
    pub follow_links: Option<bool>,
    /// The network. Unset: none.
    pub network: Option<NetworkPolicy>,
    /// Whether packages may be installed. Unset: only those of `packages`.
    pub package_installation: Option<bool>,
    /// Whether the code may start other processes and programs. Unset: yes; they are confined like
    /// their parent.
    pub subprocess_execution: Option<bool>,
    /// Whether the specification may set environment variables. Unset: yes. Those of the host are
    /// never visible.
    pub env_var_access: Option<bool>,
    /// The time limit of each execution. Unset: 30 s.
    pub timeout: Option<Duration>,
    /// The longest lifetime of a sandbox, and the lifetime if the specification has none. Unset: a
    /// detached sandbox without a lifetime in its specification ends after 1 h, and any other ends
    /// with its handle.
    pub lifetime: Option<Duration>,
    /// The time limit of one file operation: writing, reading or copying files, or exporting
    /// artifacts. Unset: 600 s.
    pub file_timeout: Option<Duration>,
    /// How much standard output of an execution is kept. Unset: 64 MiB.
    pub stdout_max_bytes: Option<ByteSize>,
    /// How much standard error of an execution is kept. Unset: 64 MiB.
    pub stderr_max_bytes: Option<ByteSize>,
    /// What may be exported: paths inside the sandbox, with the patterns `*`, `?`, `[…]` and `**`. A
    /// relative one starts in the working folder.
    pub artifact_export_paths: Vec<String>,
    /// Packages to install before code runs, each a [`Requirement`]. A separate sandbox
    /// installs them, only from wheels. So code of a package runs only in the sandbox that uses it.
    pub packages: Vec<String>,
    /// Memory of a sandbox. Unset: 512 MiB.
    pub memory: Option<ByteSize>,
    /// Processors of a sandbox. Unset: 1.
    pub cpus: Option<Cpus>,
    /// Processes of a sandbox. Unset: 256.
    pub pids: Option<u32>,
    /// Bytes of a sandbox's own storage, at least 4 KiB. Unset: 256 MiB.
    pub disk: Option<ByteSize>,
    /// Open descriptors of a process. Unset: 1,024.
    pub open_files: Option<u32>,
    /// Images that may be used, pulled, built and committed to, each an [`ImagePattern`]. Unset:
    /// any.
    pub images: Option<Vec<String>>,
    /// Secrets that a specification may name.
    pub secrets: Vec<String>,
    /// Whether every demand is required, including those from defaults.
    pub require_all: bool,
    /// Capabilities whose partial enforcement is accepted.
    pub allow_partial: Vec<Capability>,
    /// Capabilities that may go unenforced.
    pub allow_unenforced: Vec<Capability>,
}

impl CapabilityPolicy {
    /// The policy with every default.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks for fields that are invalid or contradict each other.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPolicy`] with the fields and the rule.
    pub fn validate(&self) -> Result<()> {
        let bad =
            |context: String| Err(Error::new(ErrorKind::InvalidPolicy, "read policy", context));
        let sources = self.mount_sources.iter().flatten();
        let sources = sources.map(|source| source.path.clone()).collect();
        for (field, roots) in [
            ("filesystem_read_roots", &self.filesystem_read_roots),
            ("filesystem_write_roots", &self.filesystem_write_roots),
            ("mount_sources", &Some(sources)),
        ] {
            for root in roots.iter().flatten() {
                if !root.is_absolute()
                    || root
                        .components()
                        .any(|c| c == std::path::Component::ParentDir)
                {
                    return bad(format!(
                        "{field}: {} is not an absolute path without '..'",
                        root.display()
                    ));
                }
                if root.as_os_str().as_encoded_bytes().contains(&0) {
                    return bad(format!("{field}: {root:?} has a NUL inside"));
                }
            }
        }
        crate::storage::check(&self.storage).or_else(bad)?;
        for name in &self.secrets {
            crate::secret::check_name(name).or_else(bad)?;
        }
        for path in &self.artifact_export_paths {
            if path.is_empty() || path.split('/').any(|part| part == "..") || path.contains('\0') {
                return bad(format!(
                    "artifact_export_paths: {path:?} is not a path inside of the sandbox without '..'"
                ));
            }
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return bad("timeout: 0 would end every execution before it starts".into());
        }
        if self.lifetime.is_some_and(|lifetime| lifetime.is_zero()) {
            return bad("lifetime: must be more than 0".into());
        }
        // The agent counts in milliseconds.
        if self
            .file_timeout
            .is_some_and(|timeout| timeout < MIN_FILE_TIMEOUT)
        {
            return bad("file_timeout: must be at least 1ms".into());
        }
        if self.pids == Some(0) {
            return bad("pids: must be at least 1".into());
        }
        if self.open_files.is_some_and(|files| files < 8) {
            return bad("open_files: must be at least 8".into());
        }
        if self.memory.is_some_and(|memory| memory < ByteSize::mib(1)) {
            return bad("memory: must be at least 1MiB".into());
        }
        if self.disk.is_some_and(|disk| disk < MIN_DISK) {
            return bad(format!(
                "disk: must be at least {MIN_DISK}, one page of memory"
            ));
        }
        if !self.packages.is_empty() && self.package_installation == Some(false) {
            return bad(format!(
                "packages = {:?} contradicts package_installation = false",
                self.packages
            ));
        }
        if let Some(NetworkPolicy::Allow(rules)) = &self.network {
            EgressRules::new(rules.clone()).validate()?;
        }
        self.requirements()?;
        self.image_patterns()?;
        for capability in &self.allow_unenforced {
            if matches!(
                capability,
                Capability::StdoutMaxBytes | Capability::StderrMaxBytes
            ) {
                return bad(format!(
                    "allow_unenforced: {capability} is enforced by every backend"
                ));
            }
        }
        Ok(())
    }

    /// Whether a specification may have this mount.
    ///
    /// Its source must lie below a read root, a write root or one of the mount sources; that of a
    /// writable mount below a write root, or a mount source that is not read-only. If the policy
    /// sets none of the three, it allows any mount, as it does any workspace.
    ///
    /// Compares paths as they are written. Links in them are checked where they are opened.
    #[must_use]
    pub fn allows_mount(&self, mount: &HostMount) -> bool {
        let (read, write) = (&self.filesystem_read_roots, &self.filesystem_write_roots);
        if read.is_none() && write.is_none() && self.mount_sources.is_none() {
            return true;
        }
        let covers = |root: &PathBuf| mount.source.starts_with(root);
        let sources = self.mount_sources.iter().flatten();
        let mut sources = sources.filter(|source| mount.read_only || !source.read_only);
        let mut read = read.iter().flatten().filter(|_| mount.read_only);
        read.any(covers)
            || write.iter().flatten().any(covers)
            || sources.any(|source| covers(&source.path))
    }

    /// The patterns of `images`; `None` if any image is allowed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPolicy`] for an entry that is not an [`ImagePattern`].
    pub fn image_patterns(&self) -> Result<Option<Vec<ImagePattern>>> {
        let Some(images) = &self.images else {
            return Ok(None);
        };
        let patterns = images.iter().map(|pattern| {
            pattern.parse::<ImagePattern>().map_err(|error| {
                let context = format!("images: {}", error.context());
                let invalid = Error::new(ErrorKind::InvalidPolicy, "read policy", context);
                match error.fix() {
                    Some(fix) => invalid.with_fix(fix),
                    None => invalid,
                }
            })
        });
        patterns.collect::<Result<Vec<_>>>().map(Some)
    }

    /// The packages, sorted by name, each once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPolicy`] for an entry that is not a [`Requirement`], for a name with
    /// several versions, and for more than 256 entries.
    pub fn requirements(&self) -> Result<Vec<Requirement>> {
        requirements(ErrorKind::InvalidPolicy, "read policy", &self.packages)
    }
}
