//! Packages of a plan: installed in a sandbox of this backend, then mounted into the plan's
//! sandbox.

use std::path::{Path, PathBuf};

use sandbox_core::spi::Backend;
use sandbox_core::{Error, ErrorKind, Plan, Result};
use sandbox_host::PATH;
use sandbox_host::confinement::PLATFORM_READ_ROOTS;
use sandbox_lang::packages::{self, FailedPackages, InstallRequest, Interpreter, TARGET};

use crate::LocalConfig;
use crate::host::{Host, Isolation};
use crate::python_alias::search_path;

/// Returns the plan with its packages mounted and the variables set that make Python find them, and
/// a note about these packages for the user. `state` is the state folder, which exists.
pub(crate) async fn provide(
    backend: &dyn Backend,
    config: &LocalConfig,
    failed: &FailedPackages,
    (host, isolation): (&Host, Isolation),
    state: &Path,
    plan: &Plan,
) -> Result<(Plan, Option<String>)> {
    let visible = PLATFORM_READ_ROOTS
        .iter()
        .filter_map(|root| Path::new(root).canonicalize().ok())
        .collect::<Vec<_>>();
    let interpreter = Interpreter::find(PATH, &visible).ok_or_else(|| {
        Error::new(
            ErrorKind::InstallFailed,
            "install packages",
            format!("sandboxes see no Python: there is none in {PATH}"),
        )
        .on(backend.name())
        .with_fix("install Python 3 with pip where sandboxes see it (Debian: apt-get install python3-pip)")
    })?;
    let request = InstallRequest {
        packages: &plan.packages,
        interpreter: &interpreter,
        settings: &config.packages,
        state,
        failed,
    };
    // Boxed: it creates a sandbox, so its future would otherwise contain itself.
    let installed = Box::pin(packages::provide(backend, &request)).await?;
    let source: PathBuf = installed.folder;
    let seen = match isolation {
        Isolation::Privileged | Isolation::UserNamespace => TARGET.into(),
        // Without a mount namespace, at its path on the host.
        Isolation::Landlock => source.to_string_lossy().into_owned(),
    };
    Ok((
        packages::with_packages(plan, source, seen, &search_path(host, isolation)),
        installed.note,
    ))
}
