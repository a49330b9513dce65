//! Packages of a plan: installed in a sandbox of this backend, then mounted into the plan's
//! sandbox.

use std::path::Path;

use sandbox_core::spi::Backend;
use sandbox_core::{Plan, Result};
use sandbox_host::PATH;
use sandbox_host::confinement::PLATFORM_READ_ROOTS;
use sandbox_host::egress::ENDS_TLS;
use sandbox_lang::packages::{FailedPackages, Interpreter, PackageProvider};

use crate::LocalConfig;
use crate::host::{Host, Isolation};
use crate::python_alias::search_path;

/// Returns the plan with its packages mounted and the variables set that make code find them, and
/// notes about these packages for the user. `state` is the state folder, which exists.
pub(crate) async fn provide(
    backend: &dyn Backend,
    config: &LocalConfig,
    failed: &FailedPackages,
    (host, isolation): (&Host, Isolation),
    state: &Path,
    plan: &Plan,
) -> Result<(Plan, Vec<String>)> {
    let visible = PLATFORM_READ_ROOTS
        .iter()
        .filter_map(|root| Path::new(root).canonicalize().ok())
        .collect::<Vec<_>>();
    let provider = PackageProvider {
        settings: &config.packages,
        state,
        failed,
        find: &|installer| Interpreter::find(installer, PATH, &visible),
        path: &search_path(host, isolation),
        // Without a mount namespace, code sees the folders of the host.
        own_root: isolation != Isolation::Landlock,
        carries_rules: isolation != Isolation::Landlock,
        ends_tls: ENDS_TLS,
        sees_host: true,
    };
    provider.provide(backend, plan).await
}
