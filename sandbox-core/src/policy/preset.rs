//! Predefined policies.

use std::str::FromStr;
use std::time::Duration;

use super::{CapabilityPolicy, NetworkPolicy};
use crate::plan::defaults;
use crate::{ByteSize, Capability, Error, ErrorKind};

/// A predefined policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Preset {
    /// No network, no packages, the default limits, and every demand required.
    Strict,
    /// For a project folder: no network, a time limit of 10 minutes, and partial enforcement of
    /// `disk`, because nothing limits the size of a workspace.
    Workspace,
    /// For an agent that works on a project: no network, 30 minutes, 4 GiB of memory, 1 GiB of the
    /// sandbox's own storage, 1,024 processes and 16,384 open files. Accepts partial enforcement of
    /// these, because ordinary users cannot limit all of them. The command adds the project's folder
    /// and this user's toolchains.
    Coding,
}

impl Preset {
    /// Every preset.
    pub const ALL: &'static [Self] = &[Self::Strict, Self::Workspace, Self::Coding];

    /// The name in a policy file's `extends`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Workspace => "workspace",
            Self::Coding => "coding",
        }
    }

    /// The policy.
    #[must_use]
    pub fn policy(self) -> CapabilityPolicy {
        match self {
            Self::Strict => CapabilityPolicy {
                network: Some(NetworkPolicy::None),
                package_installation: Some(false),
                timeout: Some(defaults::TIMEOUT),
                stdout_max_bytes: Some(defaults::OUTPUT),
                stderr_max_bytes: Some(defaults::OUTPUT),
                memory: Some(defaults::MEMORY),
                cpus: Some(defaults::CPUS),
                pids: Some(defaults::PIDS),
                disk: Some(defaults::DISK),
                open_files: Some(defaults::OPEN_FILES),
                require_all: true,
                ..CapabilityPolicy::default()
            },
            Self::Workspace => CapabilityPolicy {
                network: Some(NetworkPolicy::None),
                timeout: Some(Duration::from_secs(600)),
                allow_partial: vec![Capability::Disk],
                ..CapabilityPolicy::default()
            },
            Self::Coding => CapabilityPolicy {
                network: Some(NetworkPolicy::None),
                timeout: Some(Duration::from_secs(30 * 60)),
                memory: Some(ByteSize::mib(4096)),
                disk: Some(ByteSize::mib(1024)),
                pids: Some(1024),
                open_files: Some(16 * 1024),
                allow_partial: vec![
                    Capability::Disk,
                    Capability::Memory,
                    Capability::OpenFiles,
                    Capability::Pids,
                    Capability::Timeout,
                ],
                ..CapabilityPolicy::default()
            },
        }
    }
}

impl FromStr for Preset {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL
            .iter()
            .copied()
            .find(|preset| preset.as_str() == name)
            .ok_or_else(|| {
                let known = Self::ALL
                    .iter()
                    .map(|p| p.as_str())
                    .collect::<Vec<_>>()
                    .join(", ");
                Error::new(
                    ErrorKind::InvalidPolicy,
                    "read preset",
                    format!("unknown preset {name:?}; known are {known}"),
                )
            })
    }
}
