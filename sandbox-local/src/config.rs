//! Settings of the local backend.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use sandbox_host::egress::EgressConfig;
use sandbox_lang::packages::PackageSettings;

/// Settings of the local backend. The registered tiers use [`LocalConfig::default`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalConfig {
    /// Folder for locks and private files. Default: `/run/sandbox` for root, else
    /// `$XDG_RUNTIME_DIR/sandbox`, else `/tmp/sandbox-UID`. It is created with mode 0700. It is
    /// refused if another user owns it or others may enter it. No sandbox sees it.
    pub state_folder: Option<PathBuf>,
    /// The package index, the cache folder, and the limits of an installation.
    pub packages: PackageSettings,
    /// Addresses of names that rules allow, before this host's resolver is asked. The rules decide
    /// about these addresses as about any other.
    pub hosts: BTreeMap<String, IpAddr>,
    /// A file in PEM format with authorities that this host trusts beside its own, for servers of
    /// egress rules at level `http`.
    pub certificates: Option<PathBuf>,
    /// Behave as on a host that denies user namespaces. For tests only.
    #[doc(hidden)]
    pub without_user_namespaces: bool,
    /// Behave as on a host without usable control groups. For tests only.
    #[doc(hidden)]
    pub without_cgroups: bool,
    /// Leave out one mechanism but still report it as enforced. For mutation tests only.
    #[cfg(feature = "mutants")]
    #[doc(hidden)]
    pub mutation: Option<crate::LocalMutation>,
}

impl LocalConfig {
    /// What it says about servers of egress rules.
    pub(crate) fn egress(&self) -> EgressConfig<'_> {
        EgressConfig {
            hosts: &self.hosts,
            certificates: self.certificates.as_deref(),
        }
    }

    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the folder for locks and private files.
    #[must_use]
    pub fn state_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.state_folder = Some(folder.into());
        self
    }

    /// Sets the package index, the cache folder, and the limits of an installation.
    #[must_use]
    pub fn packages(mut self, settings: PackageSettings) -> Self {
        self.packages = settings;
        self
    }

    /// Sets the address of a name that rules allow, which then is not looked up. A private address
    /// takes a rule with `private`.
    #[must_use]
    pub fn host(mut self, name: impl Into<String>, address: IpAddr) -> Self {
        self.hosts.insert(name.into(), address);
        self
    }

    /// Sets a file in PEM format with authorities that this host trusts beside its own, for servers
    /// of egress rules at level `http`.
    #[must_use]
    pub fn certificates(mut self, file: impl Into<PathBuf>) -> Self {
        self.certificates = Some(file.into());
        self
    }

    /// Behaves as on a host that denies user namespaces.
    #[doc(hidden)]
    #[must_use]
    pub fn without_user_namespaces(mut self) -> Self {
        self.without_user_namespaces = true;
        self
    }

    /// Behaves as on a host without usable control groups.
    #[doc(hidden)]
    #[must_use]
    pub fn without_cgroups(mut self) -> Self {
        self.without_cgroups = true;
        self
    }

    /// Leaves out one mechanism but still reports it as enforced.
    #[cfg(feature = "mutants")]
    #[doc(hidden)]
    #[must_use]
    pub fn mutated(mut self, mutation: crate::LocalMutation) -> Self {
        self.mutation = Some(mutation);
        self
    }
}
