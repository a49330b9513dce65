//! The capabilities that a policy speaks of, one for each column of the matrix.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind};

macro_rules! capabilities {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Something that a policy restricts or grants, and that a backend enforces or does not.
        ///
        /// The names are the policy's field names, and two that no field can switch off: `processes` and `privileges`.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        #[non_exhaustive]
        pub enum Capability {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Capability {
            /// Every capability, in the order of the matrix.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name in policies, reports and the matrix.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

capabilities! {
    /// Only the read roots can be read.
    FilesystemReadRoots = "filesystem_read_roots",
    /// Only the write roots can be written.
    FilesystemWriteRoots = "filesystem_write_roots",
    /// No network, or only what the rules allow.
    NetworkAccess = "network_access",
    /// No variable of the host is seen, only those that the specification names; no inherited descriptor either.
    EnvVarAccess = "env_var_access",
    /// Processes outside cannot be seen or touched, and none of the sandbox outlives it.
    Processes = "processes",
    /// The kernel surface: no capability, no new privilege, no dangerous system call.
    Privileges = "privileges",
    /// No child processes, no second program.
    SubprocessExecution = "subprocess_execution",
    /// An execution ends at its time limit, with its whole tree.
    Timeout = "timeout",
    /// The sandbox ends with its time to live.
    Lifetime = "lifetime",
    /// At most this much standard output is kept.
    StdoutMaxBytes = "stdout_max_bytes",
    /// At most this much standard error is kept.
    StderrMaxBytes = "stderr_max_bytes",
    /// Memory of the whole sandbox.
    Memory = "memory",
    /// Processor time of the whole sandbox.
    Cpus = "cpus",
    /// Number of processes of the whole sandbox.
    Pids = "pids",
    /// Bytes that can be written to the sandbox's own storage.
    Disk = "disk",
    /// Open descriptors of a process.
    OpenFiles = "open_files",
    /// Files that come out, and nothing else does.
    ArtifactExportPaths = "artifact_export_paths",
    /// Installing packages from registries.
    PackageInstallation = "package_installation",
    /// Packages that are there before the code runs.
    Packages = "packages",
    /// Connections to the named hosts only.
    Egress = "egress",
    /// Secrets reach the code and nobody else.
    Secrets = "secrets",
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Capability {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL
            .iter()
            .copied()
            .find(|capability| capability.as_str() == name)
            .ok_or_else(|| {
                let known = Self::ALL
                    .iter()
                    .map(|c| c.as_str())
                    .collect::<Vec<_>>()
                    .join(", ");
                Error::new(
                    ErrorKind::InvalidPolicy,
                    "read capability name",
                    format!("unknown capability {name:?}; known are {known}"),
                )
            })
    }
}
