//! What a caller may set of this backend.

use std::path::PathBuf;

use sandbox_lang::packages::PackageSettings;

/// Settings of the local backend; [`LocalConfig::default`] is what the registered tiers use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalConfig {
    /// Folder for locks and private files. Unset: `/run/sandbox` for root, else `$XDG_RUNTIME_DIR/sandbox`, else
    /// `/tmp/sandbox-UID`. It is made with mode 0700, and refused where it belongs to somebody else or others may enter.
    /// No sandbox sees it.
    pub state_folder: Option<PathBuf>,
    /// Where packages come from, where they are kept, and what their installation may take.
    pub packages: PackageSettings,
    /// Behave as on a host that denies user namespaces. For tests.
    #[doc(hidden)]
    pub without_user_namespaces: bool,
    /// Behave as on a host whose control groups cannot be used. For tests.
    #[doc(hidden)]
    pub without_cgroups: bool,
    /// Leave a mechanism out, and claim it all the same. For suites that prove themselves.
    #[cfg(feature = "mutants")]
    #[doc(hidden)]
    pub mutation: Option<crate::Mutation>,
}

impl LocalConfig {
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

    /// Sets where packages come from, where they are kept, and what their installation may take.
    #[must_use]
    pub fn packages(mut self, settings: PackageSettings) -> Self {
        self.packages = settings;
        self
    }

    /// Behaves as on a host that denies user namespaces.
    #[doc(hidden)]
    #[must_use]
    pub fn without_user_namespaces(mut self) -> Self {
        self.without_user_namespaces = true;
        self
    }

    /// Behaves as on a host whose control groups cannot be used.
    #[doc(hidden)]
    #[must_use]
    pub fn without_cgroups(mut self) -> Self {
        self.without_cgroups = true;
        self
    }

    /// Leaves a mechanism out, and claims it all the same.
    #[cfg(feature = "mutants")]
    #[doc(hidden)]
    #[must_use]
    pub fn mutated(mut self, mutation: crate::Mutation) -> Self {
        self.mutation = Some(mutation);
        self
    }
}
