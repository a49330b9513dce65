//! Installs packages in a provision sandbox.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox_core::policy::{Installer, NetworkPolicy, Requirement};
use sandbox_core::spi::{Backend, Instance, place_certificates, unique_name};
use sandbox_core::{
    Capability, CapabilityPolicy, Error, ErrorKind, ExecRequest, Outcome, Plan, Result,
    SandboxSpec, admission,
};

use super::cache::{Cache, CacheKey, CacheLookup, Staging, is_folder};
use super::installer_errors::{InstallerErrors, MAX_OUTPUT};
use super::recipe::{InstallPlace, Recipe, RecipeSource, recipe};
use super::{FailedPackages, Interpreter, PackageSettings, failure, hosts, storage, transfer};

/// How many bytes of an installer's log to read, from its beginning.
const MAX_LOG: u64 = 16 * 1024 * 1024;

/// How much longer than its installation's time limit a provision sandbox may live.
const CLEANUP_GRACE: Duration = Duration::from_secs(60);

/// The outcome of a command that installed something.
const SUCCESS: Outcome = Outcome::Exited { code: 0 };

/// The interval of disk usage checks.
const SIZE_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// What to install.
#[derive(Debug, Clone, Copy)]
pub struct InstallRequest<'a> {
    /// The packages of this installer, sorted and unique ([`Plan::packages`]).
    pub packages: &'a [Requirement],
    /// What installs them.
    pub installer: Installer,
    /// The program that installs them. Provision sandboxes must see the same one.
    pub interpreter: &'a Interpreter,
    /// The cache and the limits.
    pub settings: &'a PackageSettings,
    /// The client's existing state folder, which no code sees. It contains the records that verify
    /// cache entries.
    pub state: &'a Path,
    /// The sets that failed in this client.
    pub failed: &'a FailedPackages,
    /// See [`super::PackageProvider::carries_rules`].
    pub carries_rules: bool,
    /// See [`super::PackageProvider::ends_tls`].
    pub ends_tls: bool,
    /// See [`super::PackageProvider::sees_host`].
    pub sees_host: bool,
}

/// Installed packages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Installed {
    /// The folder of the host with the packages, as code is to see it: for pip a Python user base,
    /// for npm a `node_modules`, for gem a gem home, for Go a workspace with a module cache,
    /// for cargo a folder of sources.
    pub folder: PathBuf,
    /// A note for the user, for the sandbox's report.
    pub note: Option<String>,
}

/// Returns a folder with these packages: from the cache, or newly installed in a sandbox of
/// `backend`.
///
/// # Errors
///
/// - [`ErrorKind::PackageNotFound`], [`ErrorKind::PackageNeedsBuild`],
///   [`ErrorKind::RegistryUnreachable`], [`ErrorKind::InstallTimedOut`],
///   [`ErrorKind::StorageFull`], and [`ErrorKind::InstallFailed`] for everything else, each with
///   the end of the installer's output. The same client does not try again for a minute: see
///   [`FailedPackages`].
/// - Errors of creating the provision sandbox.
///
/// # Behavior
///
/// - An installation that fails, is canceled or is killed leaves nothing behind.
/// - Concurrent calls for the same packages, in any process, wait for the first one and use its
///   result.
/// - A cache entry is used if a record in the state folder verifies it. Otherwise it is replaced,
///   and [`Installed::note`] says so.
/// - Must be called in a tokio runtime with time and I/O enabled.
pub async fn provide(backend: &dyn Backend, wanted: &InstallRequest<'_>) -> Result<Installed> {
    let recipe = recipe(wanted.installer);
    let source = recipe.source(wanted.settings);
    hosts::check(wanted.settings, &source, wanted.ends_tls)?;
    let cache = Cache::open(&wanted.settings.folder()?, wanted.state)?;
    let key = CacheKey::of(wanted.interpreter, &source, wanted.packages, wanted.state);
    if let CacheLookup::Genuine(folder) = cache.find(&key) {
        return installed(recipe, folder, None);
    }
    wanted.failed.check(&key)?;
    let deadline = Instant::now() + wanted.settings.timeout;
    let limit = tokio::time::Instant::from_std(deadline);
    let lock = match tokio::time::timeout_at(limit, cache.lock(&key)).await {
        Ok(lock) => lock?,
        Err(_) => return Err(failure::too_slow(&names(wanted), wanted.settings.timeout)),
    };
    let note = match cache.find(&key) {
        CacheLookup::Genuine(folder) => return installed(recipe, folder, None),
        CacheLookup::Nothing => None,
        CacheLookup::Unproven => Some(format!(
            "installed again: {}, because what the cache had is not proven to be what was installed",
            names(wanted)
        )),
    };
    // The installation that held the lock may have failed.
    wanted.failed.check(&key)?;
    let failed_key = key.clone();
    // Removing leftovers of a killed installation may take a while. The lock is moved into this
    // task, and into the ones below, so that it is held even if the caller is canceled.
    let (staging, cache, key, lock) = run_blocking(move || {
        let staging = cache.stage(&key, &lock)?;
        Ok((staging, cache, key, lock))
    })
    .await?;
    tracing::info!(packages = %names(wanted), "installing");
    let done = install(backend, wanted, &source, &staging, deadline).await;
    let (interpreter, packages) = (wanted.interpreter.clone(), wanted.packages.to_vec());
    let published = run_blocking(move || {
        let checked = done.and_then(|()| inspect(recipe, &staging.base()));
        let published = match checked {
            Ok(_) => cache.publish(&key, staging, &interpreter, &packages),
            Err(error) => {
                drop(staging);
                Err(error)
            }
        };
        drop(lock);
        published
    });
    let folder = published.await.map_err(|error| match error.backend() {
        Some(_) => error,
        None => error.on(backend.name()),
    });
    let folder = folder.inspect_err(|error| wanted.failed.record(failed_key, error))?;
    installed(recipe, folder, note)
}

/// Checks that the installed packages can be used. Returns a note for the report.
fn inspect(recipe: &dyn Recipe, base: &Path) -> Result<Option<String>> {
    let folder = base.join(recipe.part());
    // A link would show its target to every sandbox.
    if !is_folder(base) || !is_folder(&folder) {
        let context = format!("there is no folder {:?}", recipe.part());
        return Err(Error::new(
            ErrorKind::InstallFailed,
            "install packages",
            context,
        ));
    }
    recipe.inspect(&folder)
}

/// What code sees of an entry.
fn installed(recipe: &dyn Recipe, base: PathBuf, note: Option<String>) -> Result<Installed> {
    let about = inspect(recipe, &base)?;
    let notes = note.into_iter().chain(about).collect::<Vec<_>>();
    Ok(Installed {
        folder: match recipe.part() {
            "" => base,
            part => base.join(part),
        },
        note: (!notes.is_empty()).then(|| notes.join("; ")),
    })
}

/// Runs blocking disk work outside of the runtime.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panicked) => Err(Error::new(
            ErrorKind::InstallFailed,
            "keep installed packages",
            panicked.to_string(),
        )),
    }
}

fn names(wanted: &InstallRequest<'_>) -> String {
    let names = wanted.packages.iter();
    let names = names.map(|package| package.without_hashes().to_string());
    names.collect::<Vec<_>>().join(", ")
}

async fn install(
    backend: &dyn Backend,
    wanted: &InstallRequest<'_>,
    source: &RecipeSource,
    staging: &Staging,
    deadline: Instant,
) -> Result<()> {
    let recipe = recipe(wanted.installer);
    write_files(&staging.base(), &recipe.files(wanted.packages))?;
    let place = InstallPlace {
        interpreter: wanted.interpreter,
        source,
        staging,
        packages: wanted.packages,
    };
    let step = InstallStep {
        backend,
        wanted,
        source,
        staging,
        deadline,
    };
    step.run(recipe.commands(&place), Some(network(wanted, source)))
        .await?;
    match recipe.builds(&place) {
        builds if builds.is_empty() => Ok(()),
        builds => step.run(builds, None).await,
    }
}

/// What an installation needs in each of its provision sandboxes.
struct InstallStep<'a> {
    backend: &'a dyn Backend,
    wanted: &'a InstallRequest<'a>,
    source: &'a RecipeSource,
    staging: &'a Staging,
    deadline: Instant,
}

impl InstallStep<'_> {
    /// Runs commands in a provision sandbox with this network. `None` is for code of packages: it
    /// has no network, and does not run where that is not enforced.
    async fn run(
        &self,
        mut commands: Vec<ExecRequest>,
        network: Option<NetworkPolicy>,
    ) -> Result<()> {
        let Self {
            wanted,
            source,
            staging,
            deadline,
            ..
        } = *self;
        let plan = self.plan(network).await?;
        let instance = self.backend.create(&plan).await?;
        if let Err(error) = place_certificates(&plan, &*instance).await {
            return Err(match instance.kill().await {
                Ok(()) => error,
                Err(left) => error.with_source(left),
            });
        }
        if !wanted.sees_host {
            transfer::bring(&*instance, staging, &source.read_roots, plan.timeout).await?;
        }
        for command in &mut commands {
            command.timeout = Some(plan.timeout);
        }
        let mut output = InstallerErrors::default();
        let ended = {
            let run = run_all(&*instance, &commands, &mut output);
            let storage = wait_for_size(staging.work(), wanted.settings.storage.as_u64());
            tokio::select! {
                ended = run => Some(ended),
                () = storage => None,
                // The backend ends it at the plan's time limit, just before this.
                () = tokio::time::sleep_until((deadline + SIZE_CHECK_INTERVAL).into()) => {
                    instance.kill().await?;
                    return Err(failure::too_slow(&names(wanted), wanted.settings.timeout));
                }
            }
        };
        let fetched = match &ended {
            Some(Ok(outcome)) if !wanted.sees_host => {
                fetch(&*instance, wanted, staging, outcome, deadline).await
            }
            _ => Ok(()),
        };
        // Before reading anything: from here on no process writes there.
        instance.kill().await?;
        fetched?;
        self.check(ended, &output).await
    }

    /// Whether the commands have ended well. `ended` is `None` if they used too much space.
    async fn check(&self, ended: Option<Result<Outcome>>, output: &InstallerErrors) -> Result<()> {
        let (wanted, staging) = (self.wanted, self.staging);
        let names = names(wanted);
        let Some(ended) = ended else {
            return Err(failure::too_large(&names, wanted.settings.storage));
        };
        let outcome = ended.map_err(|error| match error.kind() {
            ErrorKind::ProgramNotFound | ErrorKind::NotExecutable => Error::new(
                ErrorKind::InstallFailed,
                "install packages",
                error.context(),
            )
            .with_fix(recipe(wanted.installer).provide_program(wanted.interpreter.home())),
            _ => error,
        })?;
        if outcome != SUCCESS {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let log = log(&staging.log());
            let home = wanted.interpreter.home();
            return Err(failure::installation_error(
                wanted.installer,
                &outcome,
                (&stderr, &log),
                &names,
                home,
            ));
        }
        let work = staging.work();
        let used = tokio::task::spawn_blocking(move || storage::used(&work)).await;
        if used.is_ok_and(|used| used > wanted.settings.storage.as_u64()) {
            return Err(failure::too_large(&names, wanted.settings.storage));
        }
        Ok(())
    }

    /// The plan of a provision sandbox.
    async fn plan(&self, network: Option<NetworkPolicy>) -> Result<Plan> {
        let Self {
            backend,
            wanted,
            source,
            staging,
            deadline,
        } = *self;
        const LIMITS: [Capability; 6] = [
            Capability::Memory,
            Capability::Cpus,
            Capability::Pids,
            Capability::Disk,
            Capability::OpenFiles,
            Capability::Timeout,
        ];
        let mut policy = CapabilityPolicy::new();
        policy.filesystem_write_roots = Some(vec![staging.work()]);
        policy.filesystem_read_roots = Some(source.read_roots.clone());
        // The host's configuration of the installer names these paths.
        policy.follow_links = Some(true);
        policy.timeout = Some(
            deadline
                .saturating_duration_since(Instant::now())
                .max(SIZE_CHECK_INTERVAL),
        );
        policy.stdout_max_bytes = Some(MAX_OUTPUT);
        policy.stderr_max_bytes = Some(MAX_OUTPUT);
        policy.memory = Some(wanted.settings.memory);
        policy.disk = Some(wanted.settings.storage);
        policy.pids = Some(64);
        // The sandbox that the packages are for reports what limits installations.
        policy.allow_partial = Capability::ALL.to_vec();
        policy.allow_unenforced = LIMITS.to_vec();
        if network.is_some() && !wanted.carries_rules {
            // Then the report says that installations have the whole network, so one that needs none
            // may have it, too.
            policy.allow_unenforced.push(Capability::NetworkAccess);
        }
        policy.network = Some(network.unwrap_or(NetworkPolicy::None));
        // A fallback in case its end is missed.
        let lifetime = policy.timeout.unwrap_or_default() + CLEANUP_GRACE;
        let spec = SandboxSpec::new(unique_name("provision")).lifetime(lifetime);
        let plan = Plan::resolve(&spec, &policy)?;
        let report = backend.assess(&plan).await?;
        admission::admit(backend.name(), &plan, &policy, &report)?;
        Ok(plan)
    }
}

/// The network of an installer: that of its registries, where the backend can carry rules.
fn network(wanted: &InstallRequest<'_>, source: &RecipeSource) -> NetworkPolicy {
    let rules = match wanted.carries_rules || source.is_local {
        true => hosts::rules(wanted.installer, source, wanted.settings, wanted.ends_tls),
        false => None,
    };
    match rules {
        Some(rules) if rules.is_empty() => NetworkPolicy::None,
        Some(rules) => NetworkPolicy::Allow(rules),
        None => NetworkPolicy::Full,
    }
}

/// Copies what an installer left in a sandbox that does not see the host's folders.
async fn fetch(
    instance: &dyn Instance,
    wanted: &InstallRequest<'_>,
    staging: &Staging,
    outcome: &Outcome,
    deadline: Instant,
) -> Result<()> {
    if *outcome != SUCCESS {
        transfer::fetch_log(instance, staging).await;
        return Ok(());
    }
    let left = deadline.saturating_duration_since(Instant::now());
    let left = left.max(SIZE_CHECK_INTERVAL);
    let fetched = transfer::fetch_packages(instance, staging, wanted.settings.storage, left).await;
    fetched.map_err(|error| match error.kind() {
        ErrorKind::StorageFull => failure::too_large(&names(wanted), wanted.settings.storage),
        ErrorKind::InstallTimedOut => failure::too_slow(&names(wanted), wanted.settings.timeout),
        _ => error,
    })
}

/// Runs commands until one of them fails. Returns the outcome of the last that ran.
async fn run_all(
    instance: &dyn Instance,
    commands: &[ExecRequest],
    output: &mut InstallerErrors,
) -> Result<Outcome> {
    let mut outcome = SUCCESS;
    for command in commands {
        outcome = instance.exec(command, None.into(), output).await?.outcome;
        if outcome != SUCCESS {
            break;
        }
    }
    Ok(outcome)
}

/// Writes the installer's own files into its new folder.
fn write_files(folder: &Path, files: &[(&str, String)]) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    for (name, content) in files {
        let path = folder.join(name);
        let failed = |cause: std::io::Error| {
            let context = format!("{}: {cause}", path.display());
            Error::new(ErrorKind::InstallFailed, "install packages", context)
        };
        if let Some(parent) = path.parent().filter(|parent| *parent != folder) {
            std::fs::create_dir_all(parent).map_err(failed)?;
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(parent, mode).map_err(failed)?;
        }
        let mode = std::fs::Permissions::from_mode(0o644);
        let written =
            std::fs::write(&path, content).and_then(|()| std::fs::set_permissions(&path, mode));
        written.map_err(failed)?;
    }
    Ok(())
}

/// Completes once the disk usage of a folder exceeds the limit.
async fn wait_for_size(folder: PathBuf, limit: u64) {
    loop {
        tokio::time::sleep(SIZE_CHECK_INTERVAL).await;
        let folder = folder.clone();
        let used = tokio::task::spawn_blocking(move || storage::used(&folder)).await;
        // Only a runtime that is shutting down does not answer.
        if used.is_ok_and(|used| used > limit) {
            return;
        }
    }
}

/// The installer's log if it is a regular file: the sandbox wrote it.
fn log(path: &Path) -> String {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = std::fs::File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    let mut bytes = Vec::new();
    // Without the log the error has less detail, and says so.
    if let Ok(file) = file
        && file.metadata().is_ok_and(|found| found.is_file())
        && let Err(cause) = file.take(MAX_LOG).read_to_end(&mut bytes)
    {
        tracing::debug!(%cause, "the installer's log");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
#[path = "install_tests.rs"]
mod tests;
