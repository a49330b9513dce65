//! Installs packages in a provision sandbox.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox_core::policy::{NetworkPolicy, Requirement};
use sandbox_core::spi::{Backend, Flow, OutputSink, OutputStream, unique_name};
use sandbox_core::{
    ByteSize, Capability, CapabilityPolicy, Error, ErrorKind, ExecRequest, Outcome, Plan, Result,
    SandboxSpec, admission,
};

use super::cache::{Cache, CacheKey, CacheLookup, Staging};
use super::{
    FailedPackages, Interpreter, PackageSettings, PackageSource, USER_BASE, failure, storage,
};

/// Maximum size of pip's output.
const MAX_PIP_OUTPUT: ByteSize = ByteSize::mib(1);

/// How many bytes of pip's log to read, from its beginning.
const MAX_PIP_LOG: u64 = 16 * 1024 * 1024;

/// How much longer than its installation's time limit a provision sandbox may live.
const CLEANUP_GRACE: Duration = Duration::from_secs(60);

/// The interval of disk usage checks.
const SIZE_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// What to install.
#[derive(Debug, Clone, Copy)]
pub struct InstallRequest<'a> {
    /// The packages, sorted and unique ([`Plan::packages`]).
    pub packages: &'a [Requirement],
    /// The interpreter that they are for. Provision sandboxes must see the same one.
    pub interpreter: &'a Interpreter,
    /// The cache and the limits.
    pub settings: &'a PackageSettings,
    /// The client's existing state folder, which no code sees. It contains the records that verify
    /// cache entries.
    pub state: &'a Path,
    /// The sets that failed in this client.
    pub failed: &'a FailedPackages,
}

/// Installed packages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Installed {
    /// The folder of the host that is a Python user base.
    pub folder: PathBuf,
    /// A note for the user, for the sandbox's report.
    pub note: Option<String>,
}

/// Returns a Python user base with these packages: from the cache, or newly installed in a sandbox
/// of `backend`.
///
/// # Errors
///
/// - [`ErrorKind::PackageNotFound`], [`ErrorKind::PackageNeedsBuild`],
///   [`ErrorKind::RegistryUnreachable`], [`ErrorKind::InstallTimedOut`],
///   [`ErrorKind::StorageFull`], and [`ErrorKind::InstallFailed`] for everything else, each with
///   the end of pip's output. The same client does not try again for a minute: see
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
    let source = match &wanted.settings.source {
        Some(source) => source.clone(),
        None => PackageSource::of_host(),
    };
    let genuine = |folder| Installed { folder, note: None };
    let cache = Cache::open(&wanted.settings.folder()?, wanted.state)?;
    let key = CacheKey::of(wanted.interpreter, &source, wanted.packages, wanted.state);
    if let CacheLookup::Genuine(folder) = cache.find(&key) {
        return Ok(genuine(folder));
    }
    wanted.failed.check(&key)?;
    let deadline = Instant::now() + wanted.settings.timeout;
    let limit = tokio::time::Instant::from_std(deadline);
    let lock = match tokio::time::timeout_at(limit, cache.lock(&key)).await {
        Ok(lock) => lock?,
        Err(_) => return Err(failure::too_slow(&names(wanted), wanted.settings.timeout)),
    };
    let note = match cache.find(&key) {
        CacheLookup::Genuine(folder) => return Ok(genuine(folder)),
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
    let installed = install(backend, wanted, &source, &staging, deadline).await;
    let (interpreter, packages) = (wanted.interpreter.clone(), wanted.packages.to_vec());
    let published = run_blocking(move || {
        let published = match installed {
            Ok(()) => cache.publish(&key, staging, &interpreter, &packages),
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
    Ok(Installed { folder, note })
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
    let names = wanted.packages.iter().map(ToString::to_string);
    names.collect::<Vec<_>>().join(", ")
}

async fn install(
    backend: &dyn Backend,
    wanted: &InstallRequest<'_>,
    source: &PackageSource,
    staging: &Staging,
    deadline: Instant,
) -> Result<()> {
    let plan = plan(backend, wanted, source, staging, deadline).await?;
    let instance = backend.create(&plan).await?;
    let mut request = request(wanted, source, staging);
    request.timeout = Some(plan.timeout);
    let mut output = PipErrors::default();
    let ended = {
        let run = instance.exec(&request, None.into(), &mut output);
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
    // Before reading anything: from here on no process writes there.
    instance.kill().await?;
    let names = names(wanted);
    let Some(ended) = ended else {
        return Err(failure::too_large(&names, wanted.settings.storage));
    };
    let end = ended.map_err(|error| match error.kind() {
        ErrorKind::ProgramNotFound | ErrorKind::NotExecutable => Error::new(
            ErrorKind::InstallFailed,
            "install packages",
            error.context(),
        )
        .with_fix(wanted.interpreter.home().provide_python()),
        _ => error,
    })?;
    if end.outcome != (Outcome::Exited { code: 0 }) {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let log = log(&staging.log());
        let home = wanted.interpreter.home();
        return Err(failure::installation_error(
            &end.outcome,
            &stderr,
            &log,
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

/// The plan of the provision sandbox.
async fn plan(
    backend: &dyn Backend,
    wanted: &InstallRequest<'_>,
    source: &PackageSource,
    staging: &Staging,
    deadline: Instant,
) -> Result<Plan> {
    const LIMITS: [Capability; 6] = [
        Capability::Memory,
        Capability::Cpus,
        Capability::Pids,
        Capability::Disk,
        Capability::OpenFiles,
        Capability::Timeout,
    ];
    let mut policy = CapabilityPolicy::new();
    policy.network = Some(match source.is_of_folders_alone() {
        true => NetworkPolicy::None,
        false => NetworkPolicy::Full,
    });
    policy.filesystem_write_roots = Some(vec![staging.work()]);
    policy.filesystem_read_roots = Some(source.read_roots());
    // The host's pip configuration names these paths.
    policy.follow_links = Some(true);
    policy.timeout = Some(
        deadline
            .saturating_duration_since(Instant::now())
            .max(SIZE_CHECK_INTERVAL),
    );
    policy.stdout_max_bytes = Some(MAX_PIP_OUTPUT);
    policy.stderr_max_bytes = Some(MAX_PIP_OUTPUT);
    policy.memory = Some(wanted.settings.memory);
    policy.disk = Some(wanted.settings.storage);
    policy.pids = Some(64);
    // The sandbox that the packages are for reports what limits installations.
    policy.allow_partial = Capability::ALL.to_vec();
    policy.allow_unenforced = LIMITS.to_vec();
    // A fallback in case its end is missed.
    let lifetime = policy.timeout.unwrap_or_default() + CLEANUP_GRACE;
    let spec = SandboxSpec::new(unique_name("provision")).lifetime(lifetime);
    let plan = Plan::resolve(&spec, &policy)?;
    let report = backend.assess(&plan).await?;
    admission::admit(backend.name(), &plan, &policy, &report)?;
    Ok(plan)
}

fn request(wanted: &InstallRequest<'_>, source: &PackageSource, staging: &Staging) -> ExecRequest {
    let path = |path: PathBuf| path.to_string_lossy().into_owned();
    let mut request = ExecRequest::new(path(wanted.interpreter.program().to_owned())).args([
        "-m",
        "pip",
        "install",
        "--user",
        "--ignore-installed",
        "--only-binary=:all:",
        "--no-input",
        "--no-cache-dir",
        "--no-warn-script-location",
        "--disable-pip-version-check",
        "--progress-bar=off",
        "--retries=2",
        "--log",
    ]);
    request = request.arg(path(staging.log()));
    for folder in source.folders() {
        request = request.arg("--find-links").arg(path(folder));
    }
    request = request.arg("--");
    for package in wanted.packages {
        request = request.arg(package.to_string());
    }
    let own = [
        (USER_BASE, path(staging.base())),
        ("TMPDIR", path(staging.temporary())),
        ("HOME", path(staging.temporary())),
        ("LANG", "C.UTF-8".to_owned()),
        // No platform file adds to the source settings.
        ("PIP_CONFIG_FILE", "/dev/null".to_owned()),
        // A user base must not use the platform's packages.
        ("PIP_BREAK_SYSTEM_PACKAGES", "1".to_owned()),
    ];
    for (name, value) in source.environment() {
        request = request.env(name, value);
    }
    for (name, value) in own {
        request = request.env(name, value);
    }
    request
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

/// pip's log if it is a regular file: the sandbox wrote it.
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
        && let Err(cause) = file.take(MAX_PIP_LOG).read_to_end(&mut bytes)
    {
        tracing::debug!(%cause, "pip's log");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Collects pip's error output and keeps its end.
#[derive(Debug, Default)]
struct PipErrors {
    stderr: Vec<u8>,
}

#[async_trait::async_trait]
impl OutputSink for PipErrors {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        if stream == OutputStream::Stdout {
            return Flow::Continue;
        }
        self.stderr.extend_from_slice(bytes);
        let most = MAX_PIP_OUTPUT.as_usize();
        if self.stderr.len() > 2 * most {
            self.stderr.drain(..self.stderr.len() - most);
        }
        Flow::Continue
    }
}

#[cfg(test)]
#[path = "install_tests.rs"]
mod tests;
