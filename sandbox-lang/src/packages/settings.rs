//! What a caller may set of installations.

use std::path::PathBuf;
use std::time::Duration;

use sandbox_core::{ByteSize, Error, ErrorKind, Result};

use super::PackageSource;

/// Where packages are kept, where they come from, and what an installation may take.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackageSettings {
    /// Folder that keeps installed packages. Unset: `sandbox/packages` in `$XDG_CACHE_HOME`, else in `~/.cache`. It is made with
    /// mode 0700, and refused where it belongs to somebody else or others may enter.
    pub folder: Option<PathBuf>,
    /// The registry. Unset: that of the host's own pip ([`PackageSource::of_host`]), read at each installation.
    pub source: Option<PackageSource>,
    /// The longest that an installation may take, with the time that it waits for another one of the same packages.
    pub timeout: Duration,
    /// How large the packages of one sandbox may be on disk, downloads included. Looked at a few times a second, so that an
    /// installation can exceed it by what the network brings in between.
    pub storage: ByteSize,
    /// Memory of an installation.
    pub memory: ByteSize,
}

impl Default for PackageSettings {
    /// 10 minutes, 4 GiB on disk, 2 GiB of memory: what the largest scientific packages need, twice.
    fn default() -> Self {
        Self {
            folder: None,
            source: None,
            timeout: Duration::from_secs(600),
            storage: ByteSize::mib(4096),
            memory: ByteSize::mib(2048),
        }
    }
}

impl PackageSettings {
    /// The folder, as set or as found in the environment.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InstallFailed`] where the environment names neither a cache nor a home folder.
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
