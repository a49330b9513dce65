//! Short names of the subjects of probes.

use sandbox_core::Capability;
use sandbox_core::matrix::{Feature, Subject};

const fn capability(capability: Capability) -> Subject {
    Subject::Capability(capability)
}

const fn feature(feature: Feature) -> Subject {
    Subject::Feature(feature)
}

pub const ARTIFACT_EXPORT_PATHS: Subject = capability(Capability::ArtifactExportPaths);
pub const CPUS: Subject = capability(Capability::Cpus);
pub const DISK: Subject = capability(Capability::Disk);
pub const EGRESS: Subject = capability(Capability::Egress);
pub const ENV_VAR_ACCESS: Subject = capability(Capability::EnvVarAccess);
pub const FILESYSTEM_READ_ROOTS: Subject = capability(Capability::FilesystemReadRoots);
pub const FILESYSTEM_WRITE_ROOTS: Subject = capability(Capability::FilesystemWriteRoots);
pub const MEMORY: Subject = capability(Capability::Memory);
pub const NETWORK_ACCESS: Subject = capability(Capability::NetworkAccess);
pub const OPEN_FILES: Subject = capability(Capability::OpenFiles);
pub const PACKAGES: Subject = capability(Capability::Packages);
pub const PACKAGE_INSTALLATION: Subject = capability(Capability::PackageInstallation);
pub const PIDS: Subject = capability(Capability::Pids);
pub const PRIVILEGES: Subject = capability(Capability::Privileges);
pub const PROCESSES: Subject = capability(Capability::Processes);
pub const STDERR_MAX_BYTES: Subject = capability(Capability::StderrMaxBytes);
pub const STDOUT_MAX_BYTES: Subject = capability(Capability::StdoutMaxBytes);
pub const SUBPROCESS_EXECUTION: Subject = capability(Capability::SubprocessExecution);
pub const TIMEOUT: Subject = capability(Capability::Timeout);

pub const ADOPTION: Subject = feature(Feature::Adoption);
pub const DENIALS: Subject = feature(Feature::Denials);
pub const DETACHED: Subject = feature(Feature::Detached);
pub const EXEC: Subject = feature(Feature::Exec);
pub const FILES: Subject = feature(Feature::Files);
pub const IMAGES: Subject = feature(Feature::Images);
pub const POOLS: Subject = feature(Feature::Pools);
pub const SESSIONS: Subject = feature(Feature::Sessions);
pub const STREAMS: Subject = feature(Feature::Streams);
pub const TERMINAL: Subject = feature(Feature::Terminal);
