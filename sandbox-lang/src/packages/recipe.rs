//! What differs between the installers of packages.
//!
//! A new installer needs:
//!
//! - a variant of [`Installer`] and its grammar of names and versions, in `sandbox-core`;
//! - a [`Recipe`], and its line in [`recipe`];
//! - the registry in the host's configuration, as a [`RegistrySource`](super::RegistrySource) in
//!   [`PackageSettings`];
//! - the failures in its output, as [`RecipeFailure`].
//!
//! The cache, its locks, the provision sandbox, its limits and the mount are shared.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sandbox_core::policy::{Installer, Requirement};
use sandbox_core::{ErrorKind, ExecRequest, Result};

use super::cache::Staging;
use super::interpreter::Home;
use super::{Interpreter, PackageSettings, cargo, cran, gem, go, npm, pip};

/// Where an installer finds programs, before the folders of its own.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How one installer installs packages, and how code finds them.
pub(super) trait Recipe: Sync {
    /// The names of its program, in order of preference.
    fn programs(&self) -> &'static [&'static str];

    /// The path of the packages in a sandbox with its own root.
    fn target(&self) -> &'static str;

    /// The folder that code sees, in the folder that it installs into. Empty for all of it.
    fn part(&self) -> &'static str {
        ""
    }

    /// The folder with programs for code that sees the packages in the folder `seen`.
    fn bin(&self, seen: &str) -> String {
        format!("{seen}/bin")
    }

    /// The variables that make code find packages in the folder `seen`.
    fn variables(&self, seen: &str) -> Vec<(&'static str, String)>;

    /// The URLs of its registries.
    fn registries(&self, source: &RecipeSource) -> Vec<String>;

    /// Whether a registry may lead to any host, and not to its own alone.
    fn leads_to_any_host(&self) -> bool {
        false
    }

    /// Where it gets packages.
    fn source(&self, settings: &PackageSettings) -> RecipeSource;

    /// Files to write into the folder before, by name.
    fn files(&self, _packages: &[Requirement]) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The commands that install, or download what [`Recipe::builds`] installs. Each runs if those before it succeeded.
    fn commands(&self, place: &InstallPlace<'_>) -> Vec<ExecRequest>;

    /// The commands that run code of packages. They run afterwards, in a sandbox without a network.
    fn builds(&self, _place: &InstallPlace<'_>) -> Vec<ExecRequest> {
        Vec::new()
    }

    /// Finds out why it failed, from its standard error and its log.
    fn classify(&self, stderr: &str, log: &str, home: Home) -> RecipeFailure;

    /// The lines of its standard error that say why it failed.
    fn errors<'a>(&self, stderr: &'a str) -> Vec<&'a str>;

    /// Refuses packages that were installed without a part that only their own code makes, and
    /// returns a note about the others. `folder` is what was installed, which nothing changes.
    fn inspect(&self, _folder: &Path) -> Result<Option<String>> {
        Ok(None)
    }

    /// What to do if its program is missing.
    fn provide_program(&self, home: Home) -> &'static str;
}

/// The recipe of an installer.
pub(super) fn recipe(installer: Installer) -> &'static dyn Recipe {
    match installer {
        Installer::Npm => &npm::Npm,
        Installer::Gem => &gem::Gem,
        Installer::Go => &go::Go,
        Installer::Cargo => &cargo::Cargo,
        Installer::Cran => &cran::Cran,
        // Installers are added here and there together.
        _ => &pip::Pip,
    }
}

/// Where and what to install.
pub(super) struct InstallPlace<'a> {
    pub interpreter: &'a Interpreter,
    pub source: &'a RecipeSource,
    pub staging: &'a Staging,
    pub packages: &'a [Requirement],
}

impl InstallPlace<'_> {
    /// The program of the installer, without arguments. Its environment has the settings of the
    /// source and a home folder.
    pub(super) fn program(&self) -> ExecRequest {
        let mut request = ExecRequest::new(text(self.interpreter.program()));
        for (name, value) in &self.source.environment {
            request = request.env(name, value);
        }
        let temporary = text(&self.staging.temporary());
        request
            .env("TMPDIR", &temporary)
            .env("HOME", &temporary)
            .env("LANG", "C.UTF-8")
    }
}

/// A path in an argument or a variable. Paths of the cache are in UTF-8 or fail to be found.
pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// What the programs of this library tell in lines that begin with `prefix`.
pub(super) fn told<'a>(stderr: &'a str, prefix: &str) -> impl Iterator<Item = &'a str> {
    stderr
        .lines()
        .filter_map(move |line| line.strip_prefix(prefix))
}

/// Where an installer gets packages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RecipeSource {
    /// Variables of the installer. They may contain passwords.
    pub environment: BTreeMap<String, String>,
    /// Folders with packages, to be named in arguments.
    pub folders: Vec<PathBuf>,
    /// Files and folders of the host that the installer must read. They exist.
    pub read_roots: Vec<PathBuf>,
    /// Whether the installer needs no network.
    pub is_local: bool,
    /// Whether the installer reaches its registries through a proxy.
    pub uses_proxy: bool,
    /// Whether the installer trusts other certificates than this host does, or checks none.
    pub has_own_trust: bool,
    /// Identifies the registries and how to reach them, without passwords.
    pub identity: String,
}

impl RecipeSource {
    /// A variable of the installer, if it is set.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str)
    }

    /// The URLs of hosts in a variable. Blanks, commas and bars separate them.
    pub(super) fn urls<'a>(&'a self, name: &str) -> impl Iterator<Item = String> + use<'a> {
        let value = self.variable(name).unwrap_or_default();
        let words = value.split([' ', '\n', ',', '|']);
        let is_url = |word: &&str| word.contains("://") && !word.starts_with("file://");
        words.filter(is_url).map(str::to_owned)
    }
}

/// Why an installer failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecipeFailure {
    pub kind: ErrorKind,
    pub what: String,
    pub fix: Option<&'static str>,
}

impl RecipeFailure {
    pub(super) fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            fix: None,
        }
    }

    pub(super) fn fix(mut self, fix: &'static str) -> Self {
        self.fix = Some(fix);
        self
    }

    /// The registry cannot be reached.
    pub(super) fn unreachable(why: &str, home: Home) -> Self {
        let what = format!("the registry cannot be reached ({why})");
        Self::new(ErrorKind::RegistryUnreachable, what).fix(home.reach_registry())
    }

    /// There is no space.
    pub(super) fn no_space() -> Self {
        Self::new(ErrorKind::StorageFull, "there is no space for it")
            .fix("make space on the disk of the cache, or set XDG_CACHE_HOME to another one")
    }

    /// Whether a program's output says that there is no space.
    pub(super) fn is_no_space(stderr: &str) -> bool {
        const WORDS: [&str; 6] = [
            "No space left on device",
            "no space left on device",
            "Disk quota exceeded",
            "File too large",
            "ENOSPC",
            "EDQUOT",
        ];
        WORDS.iter().any(|word| stderr.contains(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_installer_has_a_recipe_and_a_folder_of_its_own() {
        let recipes = Installer::ALL.map(recipe);
        let targets = recipes.map(Recipe::target);
        let programs = recipes.map(Recipe::programs);
        for (index, target) in targets.iter().enumerate() {
            assert!(!targets[..index].contains(target), "{target}");
            assert!(!programs[..index].contains(&programs[index]), "{target}");
        }
    }
}
