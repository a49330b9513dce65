//! The operator's ceiling: what code in a sandbox may do.

mod builder;
mod file;
mod network;
mod preset;
mod requirement;

pub use file::{PolicyFile, json_schema};
pub use network::{NetworkPolicy, NetworkRule};
pub use preset::Preset;
pub use requirement::Requirement;

use std::path::PathBuf;
use std::time::Duration;

use crate::{ByteSize, Capability, Cpus, Error, ErrorKind, ImagePattern, Result};

/// The least storage of a sandbox: a tmpfs has whole pages, and the kernel takes a size of 0 for "no bound".
const LEAST_DISK: ByteSize = ByteSize::kib(4);

/// The shortest time limit of file operations.
const LEAST_FILE_TIMEOUT: Duration = Duration::from_millis(1);

/// What a sandbox may do at most, and how much of it must be enforced.
///
/// Every field that is unset takes its default. Isolation (files, network, environment, processes, privileges) and every
/// limit that stands in the policy or the specification is *required*: a backend that cannot enforce it refuses to create the
/// sandbox. A limit that comes from a default is *wanted*: it is applied as far as the host can, and reported.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct CapabilityPolicy {
    /// Paths of the host that can be read, besides what code needs to run at all: on the local tiers the platform's
    /// programs and libraries, on the others the image. Unset: nothing besides.
    pub filesystem_read_roots: Option<Vec<PathBuf>>,
    /// Paths of the host that can be written (and read). Unset: none. The sandbox's own temporary folders are always writable.
    pub filesystem_write_roots: Option<Vec<PathBuf>>,
    /// Whether links that leave their folder are followed in paths of the host that a policy or a specification names. Unset: no,
    /// apart from the system's own. A link where the policy lets code write is never followed.
    pub follow_links: Option<bool>,
    /// The network. Unset: none.
    pub network: Option<NetworkPolicy>,
    /// Whether packages may be installed. Unset: those of `packages`, and no others.
    pub package_installation: Option<bool>,
    /// Whether the code may start other processes and programs. Unset: yes (they are confined like their parent).
    pub subprocess_execution: Option<bool>,
    /// Whether the specification may set environment variables. Unset: yes. The host's are never seen.
    pub env_var_access: Option<bool>,
    /// The longest an execution may take. Unset: 30 s.
    pub timeout: Option<Duration>,
    /// The longest lifetime of a sandbox, detached or not. A specification without a lifetime gets this one. Unset: a
    /// detached sandbox lives for as long as its specification says or 1 h, any other as long as its handle.
    pub lifetime: Option<Duration>,
    /// The longest duration of one file operation: writing, reading or copying files, or exporting artifacts. Unset: 600 s.
    pub file_timeout: Option<Duration>,
    /// How much standard output of an execution is kept. Unset: 64 MiB.
    pub stdout_max_bytes: Option<ByteSize>,
    /// How much standard error of an execution is kept. Unset: 64 MiB.
    pub stderr_max_bytes: Option<ByteSize>,
    /// What may be exported: absolute paths inside of the sandbox; `*`, `?`, `[…]` and `**` match names.
    pub artifact_export_paths: Vec<String>,
    /// Python packages that are there before code runs, each a [`Requirement`]. A sandbox of their own installs them, from
    /// wheels alone: code of a package runs nowhere but in the sandbox that it is for.
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
    /// Images that sandboxes may be made of, pulled, built and committed to, each an [`ImagePattern`]. Unset: any.
    pub images: Option<Vec<String>>,
    /// Secrets that a specification may name.
    pub secrets: Vec<String>,
    /// Every demand is required, those from defaults too.
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

    /// Checks what contradicts itself.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPolicy`] with the fields and the rule.
    pub fn validate(&self) -> Result<()> {
        let bad =
            |context: String| Err(Error::new(ErrorKind::InvalidPolicy, "read policy", context));
        for (field, roots) in [
            ("filesystem_read_roots", &self.filesystem_read_roots),
            ("filesystem_write_roots", &self.filesystem_write_roots),
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
        for path in &self.artifact_export_paths {
            if !path.starts_with('/')
                || path.split('/').any(|part| part == "..")
                || path.contains('\0')
            {
                return bad(format!(
                    "artifact_export_paths: {path:?} is not an absolute path inside of the sandbox without '..'"
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
            .is_some_and(|timeout| timeout < LEAST_FILE_TIMEOUT)
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
        if self.disk.is_some_and(|disk| disk < LEAST_DISK) {
            return bad(format!(
                "disk: must be at least {LEAST_DISK}, one page of memory"
            ));
        }
        if !self.packages.is_empty() && self.package_installation == Some(false) {
            return bad(format!(
                "packages = {:?} contradicts package_installation = false",
                self.packages
            ));
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

    /// The patterns of `images`; `None` where any image will do.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPolicy`] for what is no [`ImagePattern`].
    pub fn image_patterns(&self) -> Result<Option<Vec<ImagePattern>>> {
        let Some(images) = &self.images else {
            return Ok(None);
        };
        let patterns = images.iter().map(|pattern| {
            pattern.parse::<ImagePattern>().map_err(|error| {
                let context = format!("images: {}", error.context());
                let said = Error::new(ErrorKind::InvalidPolicy, "read policy", context);
                match error.fix() {
                    Some(fix) => said.with_fix(fix),
                    None => said,
                }
            })
        });
        patterns.collect::<Result<Vec<_>>>().map(Some)
    }

    /// The packages, sorted by name, each once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPolicy`] for what is no [`Requirement`], for one name with several versions, and for more than 256.
    pub fn requirements(&self) -> Result<Vec<Requirement>> {
        const MOST: usize = 256;
        let bad = |context: String| Error::new(ErrorKind::InvalidPolicy, "read policy", context);
        if self.packages.len() > MOST {
            return Err(bad(format!(
                "packages: {} of them, at most {MOST}",
                self.packages.len()
            )));
        }
        let mut requirements = Vec::new();
        for package in &self.packages {
            let requirement = package.parse::<Requirement>().map_err(|error| {
                let said = bad(format!("packages: {}", error.context()));
                match error.fix() {
                    Some(fix) => said.with_fix(fix),
                    None => said,
                }
            })?;
            requirements.push(requirement);
        }
        requirements.sort();
        requirements.dedup();
        match requirements
            .windows(2)
            .find(|pair| pair[0].name() == pair[1].name())
        {
            Some(pair) => Err(bad(format!(
                "packages: {} and {} are the same package",
                pair[0], pair[1]
            ))),
            None => Ok(requirements),
        }
    }
}
