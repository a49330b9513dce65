//! Packages that are installed while a sandbox runs.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sandbox_core::policy::{Installer, Requirement};
use sandbox_core::spi::{create_with_folder, unique_name};
use sandbox_core::{
    ArtifactLimits, Error, ErrorKind, ExecRequest, ProvidedFolder, Result, SandboxClient,
    SandboxHandle, SandboxSpec, SkipReason, registry,
};

use super::PackageSettings;
use super::cache::folder_error;
use super::live_folder::{LiveFolder, open_to_all};
use super::recipe::recipe;
use crate::Session;

const OPERATION: &str = "install packages into a running sandbox";

/// The path of the folder in a sandbox with its own root.
const TARGET: &str = "/installed";

/// A file in the folder by which it is recognized.
const MARK: &str = ".sandbox-installed";

/// The largest number of installations into one sandbox. Each is a copy of all its packages.
const MOST_INSTALLATIONS: u32 = 32;

/// The largest number of files of one installation.
const MOST_FILES: usize = 500_000;

/// A sandbox into which packages can be installed while it runs.
///
/// Its processes, files and sessions are not touched. The packages appear in a folder that code can
/// read and not write. [`crate::RunCode`] and new sessions find them there; for other programs,
/// [`LiveSandbox::install`] returns the variables. Packages of a later installation replace those of
/// earlier ones, whose folders stay for programs that use them.
///
/// ```no_run
/// use sandbox_core::{SandboxClient, SandboxSpec};
/// use sandbox_lang::{CodeRequest, LiveSandbox, RunCode};
///
/// # async fn example(client: SandboxClient) -> sandbox_core::Result<()> {
/// let sandbox = LiveSandbox::create(&client, &SandboxSpec::new("example")).await?;
/// sandbox.install(["numpy==1.26.4"]).await?;
/// let result = sandbox.run_code(CodeRequest::new("python", "import numpy")).await?;
/// result.check()?;
/// # Ok(()) }
/// ```
pub struct LiveSandbox {
    // First, so that the sandbox ends before its folder.
    handle: SandboxHandle,
    client: SandboxClient,
    folder: LiveFolder,
    /// The folder as code sees it.
    seen: String,
    settings: PackageSettings,
    /// The number of installations so far. Locked during one.
    installations: tokio::sync::Mutex<u32>,
}

impl std::fmt::Debug for LiveSandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveSandbox")
            .field("handle", &self.handle)
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl Deref for LiveSandbox {
    type Target = SandboxHandle;

    fn deref(&self) -> &SandboxHandle {
        &self.handle
    }
}

/// What was installed into a running sandbox so far.
#[derive(Debug, Default)]
struct LivePackages(Mutex<LiveState>);

#[derive(Debug, Default)]
struct LiveState {
    packages: Vec<Requirement>,
    variables: BTreeMap<String, String>,
}

/// The packages that were installed into a sandbox while it ran.
pub(crate) fn live_packages(sandbox: &SandboxHandle) -> Vec<Requirement> {
    let live = sandbox.extension::<LivePackages>();
    let state = live.0.lock().unwrap_or_else(PoisonError::into_inner);
    state.packages.clone()
}

/// The variables that make code find them.
pub(crate) fn live_variables(sandbox: &SandboxHandle) -> BTreeMap<String, String> {
    let live = sandbox.extension::<LivePackages>();
    let state = live.0.lock().unwrap_or_else(PoisonError::into_inner);
    state.variables.clone()
}

impl LiveSandbox {
    /// Creates a sandbox with an empty folder for packages.
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::create`], and:
    ///
    /// - [`ErrorKind::PolicyExceeded`] if the policy has `package_installation = false`.
    /// - [`ErrorKind::Unsupported`] for a detached sandbox, which would outlive the process that
    ///   fills the folder, for a tier that applies no policy, and for one whose sandboxes do not
    ///   see a folder of this host, such as pods.
    pub async fn create(client: &SandboxClient, spec: &SandboxSpec) -> Result<Self> {
        Self::create_with(client, spec, PackageSettings::default()).await
    }

    /// As [`LiveSandbox::create`], with the cache folder and the size limit of these settings. The
    /// backend's own apply to the installation.
    ///
    /// # Errors
    ///
    /// As [`LiveSandbox::create`].
    pub async fn create_with(
        client: &SandboxClient,
        spec: &SandboxSpec,
        settings: PackageSettings,
    ) -> Result<Self> {
        let refused = |kind, context: &str, fix: &str| {
            let error = Error::new(kind, OPERATION, context).on(client.tier());
            Err(error.with_fix(fix))
        };
        if client.policy().package_installation == Some(false) {
            let context = "the policy has package_installation = false";
            let fix = "use a policy that allows packages";
            return refused(ErrorKind::PolicyExceeded, context, fix);
        }
        if spec.detached {
            let context = "a detached sandbox outlives the process that would fill its folder";
            let fix = "name its packages in SandboxSpec::packages";
            return refused(ErrorKind::Unsupported, context, fix);
        }
        if registry::tier(client.tier()).is_ok_and(|tier| !tier.applies_policy) {
            let context = "sandboxes that follow no policy get no packages";
            return refused(ErrorKind::Unsupported, context, "use a tier with a policy");
        }
        let folder = LiveFolder::new(&settings).await?;
        std::fs::write(folder.path().join(MARK), "")
            .map_err(|cause| folder_error(folder.path(), &cause))?;
        let provided = ProvidedFolder {
            source: folder.path().to_owned(),
            target: TARGET.into(),
        };
        let handle = create_with_folder(client, spec, provided).await?;
        let Some(seen) = seen(&handle, folder.path()).await else {
            handle.kill().await?;
            let context = "its sandboxes do not see a folder of this host";
            let fix = "name the packages in SandboxSpec::packages, or use an image that has them";
            return refused(ErrorKind::Unsupported, context, fix);
        };
        Ok(Self {
            handle,
            client: client.clone(),
            folder,
            seen,
            settings,
            installations: tokio::sync::Mutex::default(),
        })
    }

    /// Installs packages beside those that the sandbox has. Returns the variables that make a program
    /// find all of them. Links, such as npm's names of programs, are left out.
    ///
    /// A provision sandbox of the same image installs them, as for a new sandbox: the same cache,
    /// limits and registry apply, and the policy is the ceiling. Installations into one sandbox wait
    /// for each other.
    ///
    /// # Errors
    ///
    /// Those of creating a sandbox with these packages, and:
    ///
    /// - [`ErrorKind::InvalidRequest`] if a text does not name a package, or names another version
    ///   of a package that the sandbox has.
    /// - [`ErrorKind::LibrariesNotSupported`] for a package of apt and other installers without
    ///   packages.
    /// - [`ErrorKind::StorageFull`] if the packages exceed the size limit.
    ///
    /// Nothing changes in the sandbox if this fails.
    pub async fn install(
        &self,
        packages: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<BTreeMap<String, String>> {
        let mut installations = self.installations.lock().await;
        let mut wanted = self.own();
        let known = wanted.len();
        for package in packages {
            self.add(&mut wanted, package.as_ref())?;
        }
        if wanted.len() == known {
            return Ok(live_variables(&self.handle));
        }
        if *installations == MOST_INSTALLATIONS {
            let context = format!("this would be more than {MOST_INSTALLATIONS} installations");
            return Err(self.error(ErrorKind::InstallFailed, context));
        }
        let name = installations.to_string();
        self.fill(&wanted, &name).await?;
        *installations += 1;
        Ok(self.publish(wanted, &name))
    }

    /// As [`LiveSandbox::install`], and lets a running session of Python, JavaScript or R find the
    /// packages too. Its variables stay. A session whose interpreter was restarted needs this again.
    ///
    /// # Errors
    ///
    /// As [`LiveSandbox::install`], [`ErrorKind::Unsupported`] for a session of another language,
    /// and [`ErrorKind::ProgramFailed`] if the session cannot take the folder.
    pub async fn install_in(
        &self,
        session: &Session,
        packages: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<BTreeMap<String, String>> {
        let (variable, cell): (_, fn(&str) -> String) = match session.language() {
            "python" => ("PYTHONUSERBASE", cell_of_python),
            "javascript" => ("NODE_PATH", cell_of_javascript),
            "r" => ("R_LIBS", cell_of_r),
            language => {
                let context = format!("a session of {language} has no packages");
                return Err(self.error(ErrorKind::Unsupported, context));
            }
        };
        let variables = self.install(packages).await?;
        if let Some(folder) = variables.get(variable) {
            session.run(cell(folder)).await?.check()?;
        }
        Ok(variables)
    }

    /// The packages that the sandbox has.
    fn own(&self) -> Vec<Requirement> {
        let planned = self.handle.plan().packages.iter().cloned();
        let mut own = live_packages(&self.handle);
        for package in planned {
            if !own.contains(&package) {
                own.push(package);
            }
        }
        own
    }

    fn add(&self, wanted: &mut Vec<Requirement>, text: &str) -> Result<()> {
        let package = text.parse::<Requirement>().map_err(|error| {
            let kind = match error.kind() {
                ErrorKind::InvalidPolicy => ErrorKind::InvalidRequest,
                kind => kind,
            };
            let typed = self.error(kind, error.context().to_owned());
            match error.fix() {
                Some(fix) => typed.with_fix(fix),
                None => typed,
            }
        })?;
        match wanted.iter().find(|own| own.is_same_package(&package)) {
            None => wanted.push(package),
            Some(own) if own.provides(&package) => {}
            Some(own) => {
                let context = format!("{package}: the sandbox has {own}");
                return Err(self.error(ErrorKind::InvalidRequest, context));
            }
        }
        Ok(())
    }

    /// Puts the packages into a new folder of this name.
    async fn fill(&self, wanted: &[Requirement], name: &str) -> Result<()> {
        let new = NewFolder(self.folder.path().join(format!(".new-{name}")));
        let failed = |cause: std::io::Error| folder_error(&new.0, &cause);
        std::fs::create_dir(&new.0).map_err(failed)?;
        let mut spec = SandboxSpec::new(unique_name("install"));
        spec.image.clone_from(&self.handle.plan().image);
        spec.packages = wanted.iter().map(ToString::to_string).collect();
        let source = self.client.create(&spec).await?;
        let copied = async {
            for installer in installers_of(wanted) {
                let target = new.0.join(installer.as_str());
                std::fs::create_dir(&target).map_err(failed)?;
                self.copy(&source, installer, &target).await?;
            }
            Ok(())
        };
        let copied = copied.await;
        let killed = source.kill().await;
        copied?;
        killed?;
        let path = new.0.clone();
        let target = self.folder.path().join(name);
        let opened = tokio::task::spawn_blocking(move || {
            open_to_all(&path)?;
            std::fs::rename(&path, target)
        });
        let opened = opened.await.map_err(std::io::Error::other);
        opened.and_then(|opened| opened).map_err(failed)
    }

    /// Copies the packages out of a sandbox in which nothing else runs.
    async fn copy(
        &self,
        source: &SandboxHandle,
        installer: Installer,
        target: &Path,
    ) -> Result<()> {
        let (variable, suffix) = variable_of(installer);
        let request = ExecRequest::shell(format!("printf %s \"${variable}\"")).log(false);
        let value = source.exec(&request).await?.check()?.stdout_text();
        let base = value.strip_suffix(&suffix).unwrap_or_default();
        if !base.starts_with('/') {
            let context = format!("{variable} is {value:?}, which names no folder");
            return Err(self.error(ErrorKind::InstallFailed, context));
        }
        let limits = ArtifactLimits {
            count: MOST_FILES,
            file_size: self.settings.storage,
            total_size: self.settings.storage,
        };
        let base = format!("{base}/.");
        let copied = source.copy_out_with(&base, target, limits).await?;
        let is_program = |source: &str| source.contains("/.bin/");
        let mut skipped = copied.skipped.iter();
        let skipped = skipped
            .find(|skipped| skipped.reason != SkipReason::Symlink || !is_program(&skipped.source));
        let Some(skipped) = skipped else {
            return Ok(());
        };
        let kind = match skipped.reason {
            SkipReason::Symlink | SkipReason::Missing => ErrorKind::InstallFailed,
            _ => ErrorKind::StorageFull,
        };
        let context = format!("{}: {:?}", skipped.source, skipped.reason);
        Err(self.error(kind, context))
    }

    /// Lets code find the packages in the folder of this name.
    fn publish(&self, wanted: Vec<Requirement>, name: &str) -> BTreeMap<String, String> {
        let folder = format!("{}/{name}", self.seen);
        let specified = &self.handle.plan().env;
        let variables = installers_of(&wanted).into_iter().flat_map(|installer| {
            recipe(installer).variables(&format!("{folder}/{}", installer.as_str()))
        });
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        // Variables of the specification take precedence.
        let variables = variables.filter(|(name, _)| !specified.contains_key(name));
        let variables = variables.collect::<BTreeMap<_, _>>();
        let live = self.handle.extension::<LivePackages>();
        *live.0.lock().unwrap_or_else(PoisonError::into_inner) = LiveState {
            packages: wanted,
            variables: variables.clone(),
        };
        variables
    }

    fn error(&self, kind: ErrorKind, context: String) -> Error {
        Error::new(kind, OPERATION, context).on(self.client.tier())
    }
}

/// The installers of these packages.
fn installers_of(packages: &[Requirement]) -> Vec<Installer> {
    let has = |installer: &Installer| {
        let mut all = packages.iter();
        all.any(|package| package.installer() == *installer)
    };
    Installer::ALL.into_iter().filter(has).collect()
}

/// A variable whose value begins with the folder of the packages, and how it goes on.
fn variable_of(installer: Installer) -> (&'static str, String) {
    let mut variables = recipe(installer).variables("@").into_iter();
    let found =
        variables.find_map(|(name, value)| Some((name, value.strip_prefix('@')?.to_owned())));
    found.expect("a variable leads to the packages of every installer")
}

/// The cell defines no name. As JSON, the text is one of Python, JavaScript and R, too.
fn cell_of_python(folder: &str) -> String {
    let pattern = format!("{folder}/lib/python3*/site-packages");
    let pattern = serde_json::Value::from(pattern);
    format!("any(map(__import__('site').addsitedir, __import__('glob').glob({pattern})))")
}

/// Node.js reads the variable when it starts, and in this function.
fn cell_of_javascript(folder: &str) -> String {
    let folder = serde_json::Value::from(folder);
    format!("process.env.NODE_PATH = {folder}; require('node:module')._initPaths()")
}

fn cell_of_r(folder: &str) -> String {
    let folder = serde_json::Value::from(folder);
    format!("invisible(.libPaths(c({folder}, .libPaths())))")
}

/// A folder that is not complete. Dropping it removes what is there.
struct NewFolder(PathBuf);

impl Drop for NewFolder {
    fn drop(&mut self) {
        if let Err(cause) = super::cache::remove(&self.0) {
            tracing::debug!(%cause, path = %self.0.display(), "removed with the sandbox");
        }
    }
}

/// The path at which a sandbox sees the folder.
async fn seen(handle: &SandboxHandle, folder: &Path) -> Option<String> {
    for path in [TARGET.to_owned(), folder.to_string_lossy().into_owned()] {
        let listed = handle.list_dir(&path).await;
        if listed.is_ok_and(|entries| entries.iter().any(|entry| entry.path.ends_with(MARK))) {
            return Some(path);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_of_every_installer_leads_to_its_packages() {
        let found = Installer::ALL.map(variable_of);
        let found = found.map(|(name, suffix)| format!("{name}=@{suffix}"));
        let expected = [
            "PYTHONUSERBASE=@",
            "NODE_PATH=@",
            "GEM_PATH=@:",
            "GOWORK=@/go.work",
            "CARGO_HOME=@/home",
            "R_LIBS=@",
        ];
        assert_eq!(found, expected);
    }
}
