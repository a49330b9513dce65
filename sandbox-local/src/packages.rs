//! Packages of a plan: installed by a sandbox of this backend, mounted into the one that they are for.

use std::path::{Path, PathBuf};

use sandbox_core::spi::Backend;
use sandbox_core::{Error, ErrorKind, Plan, Result};
use sandbox_host::PATH;
use sandbox_host::confinement::PLATFORM_READ_ROOTS;
use sandbox_lang::packages::{self, Interpreter, Order, TARGET};

use crate::LocalConfig;
use crate::host::Isolation;

/// The plan with a folder that holds its packages, and the variables that make Python and its programs be found there; and what a
/// user should know of these packages. `state` is the state folder, which is there.
pub(crate) async fn provide(
    backend: &dyn Backend,
    config: &LocalConfig,
    isolation: Isolation,
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
    let order = Order {
        packages: &plan.packages,
        interpreter: &interpreter,
        settings: &config.packages,
        state,
    };
    // Boxed, since it creates a sandbox of its own: its future is in this one's.
    let installed = Box::pin(packages::provide(backend, &order)).await?;
    let source: PathBuf = installed.folder;
    let seen = match isolation {
        Isolation::Privileged | Isolation::UserNamespace => TARGET.into(),
        // At its own path, as everything there.
        Isolation::Landlock => source.to_string_lossy().into_owned(),
    };
    Ok((packages::shown(plan, source, seen, PATH), installed.note))
}
