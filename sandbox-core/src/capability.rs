//! The capabilities that a policy can restrict, one for each row of the matrix.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind};

macro_rules! capabilities {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Something that a policy restricts or grants, and that a backend enforces or does not.
        ///
        /// Most names are those of policy fields. No field turns off the other ones, such as
        /// `processes` and `privileges`.
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
    /// Code sees no variable of the host, only those of the specification. It inherits no
    /// descriptors.
    EnvVarAccess = "env_var_access",
    /// Code cannot see or affect processes outside, and its own processes end with the sandbox.
    Processes = "processes",
    /// The kernel surface: no capabilities, no new privileges, no dangerous system calls.
    Privileges = "privileges",
    /// No child processes, and no execution of a second program.
    SubprocessExecution = "subprocess_execution",
    /// An execution ends at its time limit, together with its whole process tree.
    Timeout = "timeout",
    /// The sandbox ends with its lifetime.
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
    /// Only files that match the export paths can be exported.
    ArtifactExportPaths = "artifact_export_paths",
    /// Installing packages from registries.
    PackageInstallation = "package_installation",
    /// Packages that are installed before the code runs.
    Packages = "packages",
    /// Connections only to the named hosts.
    Egress = "egress",
    /// Secrets are visible only to the code.
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
