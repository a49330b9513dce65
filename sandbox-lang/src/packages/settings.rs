//! Settings of installations.

use std::path::PathBuf;
use std::time::Duration;

use sandbox_core::policy::NetworkRule;
use sandbox_core::{ByteSize, Error, ErrorKind, Result};

use super::{PackageSource, RegistrySource};

/// The cache folder, the registries, and the limits of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackageSettings {
    /// The cache folder. Default: `sandbox/packages` in `$XDG_CACHE_HOME`, else in `~/.cache`. It
    /// is created with mode 0700. It is refused if another user owns it or others may enter it.
    pub folder: Option<PathBuf>,
    /// The package index. Default: that of the host's pip ([`PackageSource::of_host`]), read at
    /// each installation.
    pub source: Option<PackageSource>,
    /// npm's registry. Default: that of the host's npm ([`RegistrySource::npm_of_host`]), read at
    /// each installation.
    pub npm: Option<RegistrySource>,
    /// gem's registry. Default: that of the host's gem ([`RegistrySource::gem_of_host`]), read at
    /// each installation.
    pub gem: Option<RegistrySource>,
    /// Go's module proxies. Default: those of the host's Go ([`RegistrySource::go_of_host`]), read
    /// at each installation.
    pub go: Option<RegistrySource>,
    /// cargo's registry. Default: that of the host's cargo ([`RegistrySource::cargo_of_host`]), read
    /// at each installation.
    pub cargo: Option<RegistrySource>,
    /// R's repositories. Default: those of the host's R ([`RegistrySource::cran_of_host`]), read at
    /// each installation.
    pub cran: Option<RegistrySource>,
    /// Rules for hosts that an installer needs beside its registries, such as those that the pages
    /// of an index of Python lead to. Without them, the provision sandbox for an unknown index of
    /// Python or cargo has the whole network. Level `http` needs an installer whose configuration
    /// names no certificates.
    pub hosts: Vec<NetworkRule>,
    /// Time limit of an installation, including the wait for a concurrent one of the same packages.
    pub timeout: Duration,
    /// Maximum size on disk of one sandbox's packages, including downloads. Checked a few times per
    /// second, so an installation can exceed it by what it downloads between two checks.
    pub storage: ByteSize,
    /// Memory limit of an installation.
    pub memory: ByteSize,
}

impl Default for PackageSettings {
    /// 10 minutes, 4 GiB on disk, 2 GiB of memory: twice what the largest scientific packages need.
    fn default() -> Self {
        Self {
            folder: None,
            source: None,
            npm: None,
            gem: None,
            go: None,
            cargo: None,
            cran: None,
            hosts: Vec::new(),
            timeout: Duration::from_secs(600),
            storage: ByteSize::mib(4096),
            memory: ByteSize::mib(2048),
        }
    }
}

impl PackageSettings {
    /// The cache folder, as set or as found in the environment.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InstallFailed`] if the environment names neither a cache folder nor a home
    /// folder.
    pub fn folder(&self) -> Result<PathBuf> {
        let absolute = |name: &str| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let folder = self.folder.clone().or_else(|| {
            let cache = absolute("XDG_CACHE_HOME")
                .or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
            Some(cache.join("sandbox/packages"))
        });
        folder.ok_or_else(|| {
            Error::new(
                ErrorKind::InstallFailed,
                "find the cache of packages",
                "neither XDG_CACHE_HOME nor HOME is an absolute path",
            )
            .with_fix("set XDG_CACHE_HOME to a folder of yours")
        })
    }
}
