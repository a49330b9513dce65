//! Makes installed packages visible in a sandbox, and protects them from others.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use sandbox_core::policy::Installer;
use sandbox_core::spi::Backend;
use sandbox_core::{Error, ErrorKind, Plan, ProvidedFolder, Result};

use super::recipe::recipe;
use super::{FailedPackages, InstallRequest, Installed, Interpreter, PackageSettings, provide};

/// The kernel's limit.
const MOST_LINKS: usize = 40;

/// How a backend installs the packages of a plan.
#[derive(Clone, Copy)]
pub struct PackageProvider<'a> {
    /// The cache and the limits.
    pub settings: &'a PackageSettings,
    /// See [`InstallRequest::state`].
    pub state: &'a Path,
    /// The sets that failed in this client.
    pub failed: &'a FailedPackages,
    /// Finds the program of an installer that sandboxes see.
    pub find: &'a (dyn Fn(Installer) -> Option<Interpreter> + Sync),
    /// The folders in which sandboxes look for programs, as in `PATH`.
    pub path: &'a str,
    /// Whether sandboxes have a root of their own. Others see the folders of the host.
    pub own_root: bool,
    /// Whether the backend enforces rules for connections, so that a provision sandbox reaches its
    /// registries alone.
    pub carries_rules: bool,
    /// Whether the backend can enforce rules at level `http`.
    pub ends_tls: bool,
    /// Whether sandboxes see folders of this host. To and from others, the work folder of an
    /// installation is copied: their write root and read roots are then empty folders of their own at
    /// the same paths.
    pub sees_host: bool,
}

impl std::fmt::Debug for PackageProvider<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackageProvider")
            .field("settings", &self.settings)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl PackageProvider<'_> {
    /// Installs the packages of a plan with sandboxes of `backend`. Returns the plan with the
    /// folders and the variables that make code find them, and notes for the report.
    ///
    /// # Errors
    ///
    /// See [`provide`].
    pub async fn provide(&self, backend: &dyn Backend, plan: &Plan) -> Result<(Plan, Vec<String>)> {
        let mut folders = Vec::new();
        let mut notes = Vec::new();
        for installer in installers(plan) {
            let Installed { folder, note } = self.provide_of(installer, backend, plan).await?;
            folders.push((installer, folder));
            notes.extend(note);
        }
        Ok((
            with_packages(plan, &folders, self.path, self.own_root),
            notes,
        ))
    }

    /// Installs the packages of one installer.
    async fn provide_of(
        &self,
        installer: Installer,
        backend: &dyn Backend,
        plan: &Plan,
    ) -> Result<Installed> {
        let interpreter = (self.find)(installer).ok_or_else(|| {
            let names = recipe(installer).programs().join(" or ");
            let context = format!("sandboxes see no {names} in {}", self.path);
            Error::new(ErrorKind::InstallFailed, "install packages", context)
                .on(backend.name())
                .with_fix(recipe(installer).provide_program(super::interpreter::Home::Host))
        })?;
        let own = plan.packages.iter();
        let own = own.filter(|package| package.installer() == installer);
        let packages = own.cloned().collect::<Vec<_>>();
        let request = InstallRequest {
            packages: &packages,
            installer,
            interpreter: &interpreter,
            settings: self.settings,
            state: self.state,
            failed: self.failed,
            carries_rules: self.carries_rules,
            ends_tls: self.ends_tls,
            sees_host: self.sees_host,
        };
        // Boxed: it creates a sandbox, so its future would otherwise contain itself.
        Box::pin(provide(backend, &request)).await
    }
}

/// The installers of a plan's packages.
pub(super) fn installers(plan: &Plan) -> impl Iterator<Item = Installer> {
    Installer::ALL.into_iter().filter(|installer| {
        plan.packages
            .iter()
            .any(|own| own.installer() == *installer)
    })
}

/// The paths of package folders in a sandbox of this plan that has its own root.
pub fn targets(plan: &Plan) -> impl Iterator<Item = &'static str> {
    let pip = std::iter::once(Installer::Pip);
    let others = installers(plan).filter(|installer| *installer != Installer::Pip);
    pip.chain(others)
        .map(|installer| recipe(installer).target())
}

/// Adds folders of [`super::provide`] to a plan, and the variables that make code find the
/// packages, and their programs after those in `path` (as in `PATH`). Variables of the
/// specification take precedence. Code sees each folder at the path of its installer, or without
/// a root of its own at the host's path.
#[must_use]
pub fn with_packages(
    plan: &Plan,
    folders: &[(Installer, PathBuf)],
    path: &str,
    own_root: bool,
) -> Plan {
    let mut plan = plan.clone();
    let mut path = path.to_owned();
    for (installer, source) in folders {
        let recipe = recipe(*installer);
        let seen = match own_root {
            true => recipe.target().to_owned(),
            false => source.to_string_lossy().into_owned(),
        };
        path = format!("{path}:{}", recipe.bin(&seen));
        for (name, value) in recipe.variables(&seen) {
            plan.env.entry(name.into()).or_insert(value);
        }
        plan.provided_folders.push(ProvidedFolder {
            source: source.clone(),
            target: recipe.target().into(),
        });
    }
    plan.env.entry("PATH".into()).or_insert(path);
    plan
}

/// The folder of installed packages, if the plan's code might write to it because it may write to a
/// folder of the host. Packages changed there would run in other sandboxes. `None` if code may
/// write to no folder of the host, or if there is no package folder.
///
/// Creates the folder if it is missing and code could create it: only an existing folder can be
/// masked. The caller must also prevent code from renaming its parents.
///
/// # Errors
///
/// [`ErrorKind::SetupFailed`] if the folder cannot be created, or if a link on its path is in a
/// folder that code can write to: code could then redirect the package folder of the next sandbox.
pub fn writable_cache(plan: &Plan, settings: &PackageSettings) -> Result<Option<PathBuf>> {
    let writable = writable(plan);
    if writable.is_empty() {
        return Ok(None);
    }
    // Without a cache folder in the environment there is none.
    let Ok(folder) = settings.folder() else {
        return Ok(None);
    };
    let Ok((cache, is_there)) = real(&folder, &writable)? else {
        return Ok(None);
    };
    if !is_there {
        if !writable.iter().any(|root| cache.starts_with(root)) {
            return Ok(None);
        }
        let mut folders = std::fs::DirBuilder::new();
        let made = folders.recursive(true).mode(0o700).create(&cache);
        made.map_err(|cause| refused(&cache, &format!("it cannot be made ({cause})")))?;
    }
    Ok(Some(cache))
}

fn refused(cache: &Path, why: &str) -> Error {
    let context = format!("installed packages in {}: {why}", cache.display());
    Error::new(
        ErrorKind::SetupFailed,
        "protect installed packages",
        context,
    )
    .with_fix("give the code a folder that is not around the cache, or set another XDG_CACHE_HOME")
}

/// The folders of the host that a plan makes writable, with links resolved.
fn writable(plan: &Plan) -> Vec<PathBuf> {
    // A missing folder cannot be written to.
    let sources = plan.writable_sources();
    sources.filter_map(|it| it.canonicalize().ok()).collect()
}

/// Resolves the links of a path, and tells whether the target exists. Missing components stay
/// unchanged.
fn real(path: &Path, writable: &[PathBuf]) -> Result<std::io::Result<(PathBuf, bool)>> {
    let mut real = PathBuf::from("/");
    let mut rest = path.to_owned();
    for _ in 0..MOST_LINKS {
        let mut parts = rest.components();
        let mut link = None;
        for part in parts.by_ref() {
            match part {
                Component::Normal(part) => real.push(part),
                Component::ParentDir => drop(real.pop()),
                Component::RootDir => real = "/".into(),
                Component::CurDir | Component::Prefix(_) => {}
            }
            match std::fs::symlink_metadata(&real) {
                Ok(found) if found.is_symlink() => {
                    link = Some(real.clone());
                    break;
                }
                Ok(_) => {}
                Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
                    return Ok(Ok((real.join(parts.as_path()), false)));
                }
                Err(cause) => return Ok(Err(cause)),
            }
        }
        let Some(link) = link else {
            return Ok(Ok((real, true)));
        };
        real.pop();
        if writable.iter().any(|root| real.starts_with(root)) {
            let why = format!("code could change the link {}", link.display());
            return Err(refused(path, &why));
        }
        let target = match std::fs::read_link(&link) {
            Ok(target) => target,
            Err(cause) => return Ok(Err(cause)),
        };
        rest = target.join(parts.as_path());
    }
    Ok(Err(rustix::io::Errno::LOOP.into()))
}

#[cfg(test)]
mod tests {
    use sandbox_core::{CapabilityPolicy, SandboxSpec, Workspace};

    use super::*;

    fn plan(spec: &SandboxSpec) -> Plan {
        Plan::resolve(spec, &CapabilityPolicy::new()).expect("a plan")
    }

    #[test]
    fn variables_of_the_specification_take_precedence() {
        let spec = SandboxSpec::new("test").env("PATH", "/mine");
        let folders = [
            (Installer::Pip, "/cache/base".into()),
            (Installer::Npm, "/cache/npm/node_modules".into()),
        ];
        let seen = with_packages(&plan(&spec), &folders, "/bin", true);
        assert_eq!(seen.env["PATH"], "/mine");
        assert_eq!(seen.env["PYTHONUSERBASE"], "/packages");
        assert_eq!(seen.env["NODE_PATH"], "/node_modules");
        let targets = seen.provided_folders.iter().map(|folder| &folder.target);
        assert!(targets.eq(["/packages", "/node_modules"].map(Path::new)));

        let on_host = with_packages(&plan(&SandboxSpec::new("test")), &folders, "/bin", false);
        assert_eq!(on_host.env["NODE_PATH"], "/cache/npm/node_modules");
        assert_eq!(
            on_host.env["PATH"],
            "/bin:/cache/base/bin:/cache/npm/node_modules/.bin"
        );
    }

    #[test]
    fn target_is_reserved_only_for_packages_of_its_installer() {
        let named = |package: &str| {
            let policy = CapabilityPolicy::new().package(package);
            let plan = Plan::resolve(&SandboxSpec::new("test"), &policy).expect("a plan");
            targets(&plan).collect::<Vec<_>>()
        };
        assert_eq!(named("a"), ["/packages"]);
        assert_eq!(named("npm:a"), ["/packages", "/node_modules"]);
        assert_eq!(named("gem:a"), ["/packages", "/gems"]);
    }

    fn settings(folder: PathBuf) -> PackageSettings {
        PackageSettings {
            folder: Some(folder),
            ..PackageSettings::default()
        }
    }

    fn of(workspace: Workspace, settings: &PackageSettings) -> Result<Option<PathBuf>> {
        let plan = plan(&SandboxSpec::new("test").workspace(workspace));
        writable_cache(&plan, settings)
    }

    #[test]
    fn cache_is_protected_only_from_plans_that_write() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().canonicalize().expect("a path");
        let cache = base.join("sandbox/packages");
        let settings = settings(cache.clone());
        let spec = SandboxSpec::new("test");
        assert_eq!(writable_cache(&plan(&spec), &settings).expect("none"), None);
        let elsewhere = || Workspace::read_write(base.with_file_name("elsewhere"));
        assert_eq!(of(elsewhere(), &settings).expect("none"), None);
        std::fs::create_dir_all(&cache).expect("made");
        let read_only = Workspace::read_only(&base);
        assert_eq!(of(read_only, &settings).expect("none"), None);
        let inside = Workspace::read_write(base.join("sandbox"));
        assert_eq!(of(inside, &settings).expect("covered"), Some(cache));
    }

    #[test]
    fn missing_cache_in_a_writable_folder_is_created() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().canonicalize().expect("a path");
        let cache = base.join("packages");
        let settings = settings(cache.clone());
        assert!(!cache.exists());
        let found = of(Workspace::read_write(&base), &settings).expect("made");
        assert_eq!(found, Some(cache.clone()));
        let mode = std::os::unix::fs::MetadataExt::mode(&cache.metadata().expect("there"));
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn replaceable_link_to_the_cache_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().canonicalize().expect("a path");
        std::fs::create_dir_all(base.join("home")).expect("made");
        std::fs::create_dir_all(base.join("scratch/packages")).expect("made");
        std::os::unix::fs::symlink("../scratch", base.join("home/.cache")).expect("a link");
        let settings = settings(base.join("home/.cache/packages"));
        let error = of(Workspace::read_write(base.join("home")), &settings).expect_err("a link");
        assert!(error.context().contains("home/.cache"), "{error}");
        let other = Workspace::read_write(base.join("scratch"));
        let found = of(other, &settings).expect("covered");
        assert_eq!(found, Some(base.join("scratch/packages")));
    }
}
