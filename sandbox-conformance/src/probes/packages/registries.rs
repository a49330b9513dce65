//! Where packages come from, and what is installed of them.

use std::path::Path;

use sandbox_core::ErrorKind;

use super::poison::{imported, installed};
use crate::host_fixture;
use crate::probes::prelude::*;
use crate::wheel;

/// The token of a package, in another folder and then in the same one.
const OTHER: &str = "package-of-another-folder";
const CHANGED: &str = "package-that-changed";

/// Lets the host's installer find packages elsewhere. What is cached belongs to where it came from,
/// and stays as it was first installed.
pub(super) async fn other(context: &mut ProbeContext) -> Result<(), ProbeError> {
    super::pip_finds_it(context).await;
    let (cache, _guard) = host_fixture::package_cache().await;
    if installed(context, &cache).await?.is_none() {
        return Ok(());
    }
    let folder = host_fixture::package_folder().join("other");
    let found = found(context, &folder).await;
    host_fixture::use_wheels(&host_fixture::wheels())?;
    let deviation = found?.map(|found| {
        let is_right = found == [OTHER; 2];
        (!is_right).then(|| format!("it imports {}", found.join(", then ")))
    });
    context.record_attack(behavior("import another folder's package", deviation));
    context.no_host_effect("the attack checks what sandboxes import");
    Ok(())
}

/// What sandboxes import of another folder, before and after a change of its package.
async fn found(
    context: &mut ProbeContext,
    folder: &Path,
) -> Result<Result<[String; 2], Attempt>, ProbeError> {
    host_fixture::make_folder(folder)?;
    wheel::write(folder, OTHER)?;
    host_fixture::use_wheels(folder)?;
    let other = imported_by(context).await;
    wheel::write(folder, CHANGED)?;
    let later = imported_by(context).await;
    Ok(other.and_then(|other| Ok([other, later?])))
}

/// What a new sandbox imports.
async fn imported_by(context: &mut ProbeContext) -> Result<String, Attempt> {
    let setup = super::with_package(context.fixture());
    let sandbox = context.once(&setup).await;
    let sandbox = sandbox.map_err(|error| context.record_create_error(error))?;
    let imported = imported(&sandbox).await;
    let killed = sandbox.handle().kill().await;
    killed.map_err(|error| Attempt::unclear(error.to_string()))?;
    Ok(imported)
}

/// Requests the package with a hash that its file does not have. The installer says so.
pub(super) async fn hashes(context: &mut ProbeContext) -> Result<(), ProbeError> {
    super::pip_finds_it(context).await;
    let _cache = host_fixture::with_packages().await;
    context.allow_control(&Call::new(["alive"])).await;
    let name = wheel::NAME.replace('_', "-");
    let package = format!("{name}==1.0#sha256:{}", "0".repeat(64));
    let deviation = match context.with_sandbox(async |_| ()).await {
        Err(declined) => Err(declined),
        Ok(()) => match context
            .create(|policy| policy.packages = vec![package])
            .await
        {
            Err(error)
                if error.kind() == ErrorKind::InstallFailed
                    && error.to_string().to_lowercase().contains("hash") =>
            {
                Ok(None)
            }
            Err(error) => Ok(Some(error.to_string())),
            Ok(()) => Ok(Some("a sandbox with the package".to_owned())),
        },
    };
    context.record_attack(behavior("request a file with another hash", deviation));
    context.no_host_effect("nothing is created");
    Ok(())
}
